"""Checks of a tenant's quota. They raise ``quota_exceeded``.

What counts lives in several applications, so callers pass the present number. To count and create without a
race, call ``quota_lock`` first in the same transaction.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Literal, NamedTuple

from django.conf import settings

from tenants.base.errors import ErrorCode, HmiError
from tenants.base.ttl_cache import cached
from tenants.usage.models import Quota
from tenants.usage.selectors import daily_request_quota, quota_of, storage_used_bytes

if TYPE_CHECKING:
    from tenants.accounts.models import Tenant

Counted = Literal["domains", "models", "active jobs", "API keys"]


def quota_lock(*, tenant: Tenant) -> Quota:
    """Return the tenant's quota and lock its row until the transaction ends."""
    Quota.unscoped.get_or_create(tenant=tenant)
    return Quota.objects.for_tenant(tenant).select_for_update().get()


def quota_check(*, tenant: Tenant, what: Counted, having: int, adding: int = 1) -> None:
    """Raise ``quota_exceeded`` if the tenant, which has ``having`` of these, may not have more. Only API keys
    that work count."""
    limit = getattr(quota_of(tenant), f"max_{what.lower().replace(' ', '_')}")
    _check(limit=limit, used=having, asked=adding, what=what)


def quota_check_invitations(*, tenant: Tenant, made_today: int) -> None:
    """Raise ``quota_exceeded`` if the tenant may not create another invitation link today (UTC)."""
    _check(
        limit=quota_of(tenant).max_invitations_per_day,
        used=made_today,
        asked=1,
        what="invitations a day",
        retry_after=seconds_to_midnight(),
    )


def quota_check_storage(*, tenant: Tenant, adding_bytes: int, releasing_bytes: int = 0) -> None:
    """Raise ``quota_exceeded`` if these bytes do not fit into the tenant's storage quota."""
    _check(
        limit=quota_of(tenant).max_storage_bytes,
        used=storage_used_bytes(tenant) - releasing_bytes,
        asked=adding_bytes,
        what="bytes of storage",
    )


class DailyRequests(NamedTuple):
    """The quota of infer requests of a day (UTC), and how many have been counted."""

    day: date
    limit: int
    used: int


def quota_check_requests(*, tenant: Tenant) -> DailyRequests:
    """Raise ``quota_exceeded`` if the tenant's infer requests of today (UTC) are used up.

    The quota and the requests are those in the database, at most HMI_KEY_CACHE_S ago. Requests under way, and
    those not written yet, are not counted here: `inference.api.rates` reserves them in Valkey.
    """
    today = datetime.now(UTC).date()
    limit, used = cached(
        f"daily-requests:{tenant.pk}:{today}",
        lambda: daily_request_quota(tenant, today),
        settings.HMI_KEY_CACHE_S,
    )
    if used >= limit:
        raise daily_requests_exceeded(limit=limit, used=used)
    return DailyRequests(today, limit, used)


def daily_requests_exceeded(*, limit: int, used: int) -> HmiError:
    """Return the error of a tenant that sends one more infer request today than it may."""
    return _exceeded(limit, used, 1, "requests a day", seconds_to_midnight())


def seconds_to_midnight() -> int:
    """Return the seconds until the next day (UTC) begins."""
    now = datetime.now(UTC)
    midnight = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    return int((midnight - now).total_seconds()) + 1


def _check(*, limit: int, used: int, asked: int, what: str, retry_after: int | None = None) -> None:
    if used + asked > limit:
        raise _exceeded(limit, used, asked, what, retry_after)


def _exceeded(limit: int, used: int, asked: int, what: str, retry_after: int | None) -> HmiError:
    return HmiError(
        ErrorCode.QUOTA_EXCEEDED,
        f"Quota exceeded: {limit:,} {what} allowed, {used:,} used, {asked:,} more requested.",
        details={"quota": what, "limit": limit, "used": used, "asked": asked},
        retry_after=retry_after,
    )
