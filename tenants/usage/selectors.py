"""Sums of usage, and quotas.

A tenant may have a hundred thousand rows of usage. The sums by day and key and by month and model are stored;
sums by model for other periods are computed.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django.conf import settings
from django.db import connection
from django.db.models import F, OuterRef, Q, QuerySet, Subquery, Sum

from tenants.base.scope import tenant_scope
from tenants.usage.models import Quota, UsageDay, UsageMonth, UsageSum

if TYPE_CHECKING:
    from tenants.accounts.models import Tenant

SUMMED: Final = ("requests", "inputs", "tokens", "failed", "busy_ms")


class UsageBy(StrEnum):
    """What usage is summed by."""

    DAY = "day"
    MODEL = "model"
    KEY = "key"

    @property
    def column(self) -> str:
        """The column to group by."""
        return {UsageBy.DAY: "day", UsageBy.MODEL: "model_name", UsageBy.KEY: "key_prefix"}[self]


@dataclass(frozen=True, slots=True)
class UsageFilter:
    """Filters usage by model name and by key prefix, which is empty for the browser. None means all."""

    hplm: str | None = None
    key: str | None = None

    def apply(self, rows: QuerySet[Any, Any]) -> QuerySet[Any, Any]:
        """Return the rows that match."""
        asked = {"model_name": self.hplm, "key_prefix": self.key}
        return rows.filter(**{column: name for column, name in asked.items() if name is not None})


ALL_USAGE: Final = UsageFilter()


@dataclass(frozen=True, slots=True)
class UsageTotal:
    """Sums over a period; ``busy_ms`` is for how long inference workers were busy."""

    requests: int
    inputs: int
    tokens: int
    failed: int
    busy_ms: float = 0.0


def month_of(day: date) -> tuple[date, date]:
    """The first and the last day of its month."""
    return day.replace(day=1), day.replace(day=monthrange(day.year, day.month)[1])


def has_usage(tenant: Tenant) -> bool:
    """Whether an infer request was ever sent; one query."""
    return UsageMonth.objects.for_tenant(tenant).exists()


def usage_total(tenant: Tenant, since: date, until: date | None = None) -> UsageTotal:
    """All usage of the tenant from this day on, through the other; one query."""
    sums = _between(tenant, UsageBy.DAY, since, until)
    return UsageTotal(**sums.aggregate(**{name: Sum(name, default=0) for name in SUMMED}))


def usage_by(
    tenant: Tenant,
    by: UsageBy,
    since: date,
    until: date | None = None,
    *,
    only: Collection[str] | None = None,
    of: UsageFilter = ALL_USAGE,
) -> QuerySet[Any, Any]:
    """Usage of a period as dictionaries: ``name`` (a day, the name of a model, or the prefix of a key, empty
    for the browser) and its sums; the newest day, or what was asked most, first. ``only`` these names, if
    given, and only what ``of`` says.
    """
    rows = _between(tenant, by, since, until, of).order_by().values(name=F(by.column))
    chosen = rows if only is None else rows.filter(**{f"{by.column}__in": only})
    summed: QuerySet[Any, Any] = chosen.annotate(**{name: Sum(name) for name in SUMMED})
    return summed.order_by(*(["-name"] if by == UsageBy.DAY else ["-requests", "name"]))


def usage_by_day_and_model(tenant: Tenant, since: date, until: date | None = None) -> QuerySet[Any, Any]:
    """Usage of a period by day and model, all keys together, as dictionaries; the newest day first."""
    rows = _within(UsageDay, tenant, "day", since, until).order_by().values("day", "model_name")
    summed: QuerySet[Any, Any] = rows.annotate(**{name: Sum(name) for name in SUMMED})
    return summed.order_by("-day", "model_name")


def busiest(
    tenant: Tenant,
    by: UsageBy,
    since: date,
    until: date | None = None,
    *,
    limit: int | None,
    of: UsageFilter = ALL_USAGE,
) -> dict[str, int]:
    """Requests of the models or keys with most of them in a period, the most first; one query."""
    rows = _between(tenant, by, since, until, of)
    if rows.model is UsageMonth and until == month_of(since)[1]:  # in which it has one row
        return dict(rows.order_by("-requests", by.column).values_list(by.column, "requests")[:limit])
    asked = rows.order_by().values_list(by.column).annotate(asked=Sum("requests"))
    return dict(asked.order_by("-asked", by.column)[:limit])


def usage_batches(
    tenant: Tenant,
    since: date,
    until: date,
    columns: tuple[str, ...],
    *,
    at_once: int,
    of: UsageFilter = ALL_USAGE,
) -> Iterator[list[tuple[Any, ...]]]:
    """All rows of a period, the newest day first, so many at a time. They may be asked for slowly: nothing
    is open in the database between two parts."""
    for day in _days(tenant, since, until, of):
        last: tuple[str, str] | None = None
        while rows := _part(tenant, day, last, columns, at_once, of):
            yield [row[2:] for row in rows]
            last = rows[-1][:2]


def _days(tenant: Tenant, since: date, until: date, of: UsageFilter) -> list[date]:
    with tenant_scope(tenant):
        sums = _between(tenant, UsageBy.DAY, since, until, of).order_by("-day")
        return list(sums.values_list("day", flat=True).distinct())


def _part(
    tenant: Tenant,
    day: date,
    last: tuple[str, str] | None,
    columns: tuple[str, ...],
    at_once: int,
    of: UsageFilter,
) -> list[tuple[Any, ...]]:
    """So many rows of the day behind the last, with the model and the key before the columns."""
    rows = of.apply(UsageDay.objects.for_tenant(tenant)).filter(day=day).order_by("model_name", "key_prefix")
    if last is not None:
        seen = Q(model_name=last[0], key_prefix__lte=last[1])
        rows = rows.filter(~seen, model_name__gte=last[0])
    try:
        with tenant_scope(tenant):
            return list(rows.values_list("model_name", "key_prefix", *columns)[:at_once])
    finally:
        if not connection.in_atomic_block:
            connection.close()


def _between(
    tenant: Tenant, by: UsageBy, since: date, until: date | None, of: UsageFilter = ALL_USAGE
) -> QuerySet[Any, Any]:
    """Where this is added up from: what is needed of it, and no more rows than must be."""
    if by != UsageBy.MODEL and of.hplm is None:
        return of.apply(_within(UsageSum, tenant, "day", since, until))
    if by == UsageBy.MODEL and of.key is None and _are_whole_months(since, until):
        return of.apply(_within(UsageMonth, tenant, "month", since, until))
    return of.apply(_within(UsageDay, tenant, "day", since, until))


def _within(
    model: type[UsageDay | UsageMonth | UsageSum], tenant: Tenant, at: str, since: date, until: date | None
) -> QuerySet[Any, Any]:
    rows: QuerySet[Any, Any] = model.objects.for_tenant(tenant).filter(**{f"{at}__gte": since})
    return rows.filter(Q() if until is None else Q(**{f"{at}__lte": until}))


def _are_whole_months(since: date, until: date | None) -> bool:
    return since == month_of(since)[0] and (until is None or until == month_of(until)[1])


class Rates(NamedTuple):
    """Rate limits per minute: infer requests, their tokens, requests to the manage API. 0 means unlimited."""

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
