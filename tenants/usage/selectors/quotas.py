"""Reads. Each names the tenant whose rows it returns, or says that they are the platform's."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, NamedTuple

from django.conf import settings
from django.db.models import OuterRef, QuerySet, Subquery, Sum

from tenants.usage.models import Quota, UsageDay, UsageSum

if TYPE_CHECKING:
    from tenants.accounts.models import Tenant


class Rates(NamedTuple):
    """So much a minute: infer requests, their tokens, requests to the manage API. 0: as much as they like."""

    requests_per_minute: int
    tokens_per_minute: int
    manage_per_minute: int


def quota_of(tenant: Tenant) -> Quota:
    """The tenant's quota; the defaults when no row was ever written."""
    return Quota.objects.for_tenant(tenant).first() or Quota(tenant=tenant)


def usage_of(tenant: Tenant, since: date) -> QuerySet[UsageDay]:
    """The tenant's usage by day, model and key, from this day on, newest first."""
    return UsageDay.objects.for_tenant(tenant).filter(day__gte=since)


def requests_today(tenant: Tenant) -> int:
    """Infer requests of the tenant since midnight UTC, as far as they are written down."""
    rows = UsageSum.objects.for_tenant(tenant).filter(day=datetime.now(UTC).date())
    return int(rows.aggregate(total=Sum("requests"))["total"] or 0)


def requests_allowed(tenant: Tenant, day: date) -> tuple[int, int]:
    """How many infer requests the tenant may send a day, and how many of that day are written down; one
    query."""
    of_day = UsageSum.unscoped.filter(tenant=OuterRef("tenant"), day=day).order_by().values("tenant")
    used = Subquery(of_day.annotate(total=Sum("requests")).values("total"))
    found = Quota.objects.for_tenant(tenant).values_list("max_requests_per_day", used).first()
    if found is None:
        return Quota(tenant=tenant).max_requests_per_day, requests_today(tenant)
    return int(found[0]), int(found[1] or 0)


def rates_of(tenant: Tenant) -> Rates:
    """What the tenant may do in a minute: its own limits, else the installation's."""
    found = Quota.objects.for_tenant(tenant).values_list(*Rates._fields).first() or (None, None, None)
    usual = (settings.HMI_RATE_REQUESTS, settings.HMI_RATE_TOKENS, settings.HMI_RATE_MANAGE)
    return Rates(*(own or common for own, common in zip(found, usual, strict=True)))
