"""Refusing what a tenant's quota does not allow.

What counts lives in several apps, so the caller says how much there already is. To count and then
create without a race, take ``quota_lock`` first, in the same transaction.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import connection

from tenants.base import hooks
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.ttl_cache import cached
from tenants.usage.models import Quota
from tenants.usage.selectors import quota_of, requests_allowed
from tenants.usage.services.usage import usage_counted, usage_landed, usage_settled

if TYPE_CHECKING:
    from tenants.accounts.models import Tenant


def quota_lock(*, tenant: Tenant) -> Quota:
    """The tenant's quota, its row locked until the transaction ends."""
    Quota.unscoped.get_or_create(tenant=tenant)
    return Quota.objects.for_tenant(tenant).select_for_update().get()


def quota_check_domains(*, tenant: Tenant, having: int, adding: int = 1) -> None:
    """May the tenant, having so many domains, have so many more? Otherwise ``quota_exceeded``."""
    _check(limit=quota_of(tenant).max_domains, used=having, asked=adding, what="domains")


def quota_check_models(*, tenant: Tenant, having: int) -> None:
    """May the tenant, having so many models, have one more? Otherwise ``quota_exceeded``."""
    _check(limit=quota_of(tenant).max_models, used=having, asked=1, what="models")


def quota_check_active_jobs(*, tenant: Tenant, having: int, adding: int = 1) -> None:
    """May so many jobs be added to the active ones? Otherwise ``quota_exceeded``."""
    _check(limit=quota_of(tenant).max_active_jobs, used=having, asked=adding, what="active jobs")


def quota_check_api_keys(*, tenant: Tenant, having: int) -> None:
    """May the tenant, having so many keys that work, have one more? Otherwise ``quota_exceeded``."""
    _check(limit=quota_of(tenant).max_api_keys, used=having, asked=1, what="API keys")


def quota_check_invitations(*, tenant: Tenant, made_today: int) -> None:
    """May the tenant make one more link today (UTC)? Otherwise ``quota_exceeded``."""
    _check(
        limit=quota_of(tenant).max_invitations_per_day,
        used=made_today,
        asked=1,
        what="invitations a day",
        retry_after=_seconds_to_midnight(),
    )


def quota_check_storage(*, tenant: Tenant, adding_bytes: int, beside_uploads: int = 0) -> None:
    """Do so many bytes still fit beside the uploads and what else there is? Otherwise ``quota_exceeded``."""
    _check(
        limit=quota_of(tenant).max_storage_bytes,
        used=sum(hooks.storage_used(tenant)) + beside_uploads,
        asked=adding_bytes,
        what="bytes of storage",
    )


def quota_check_requests(*, tenant: Tenant) -> None:
    """May the tenant send one more infer request today (UTC)? Otherwise ``quota_exceeded``.

    Requests that this process counted are known at once; the quota, and what others counted, as it was
    HMI_KEY_CACHE_S ago.
    """
    today = datetime.now(UTC).date()
    limit, others = cached(
        f"allowance:{tenant.pk}:{today}", lambda: _allowance(tenant, today), settings.HMI_KEY_CACHE_S
    )
    used = others + usage_counted(tenant=tenant, day=today)
    if used >= limit:
        _check(limit=limit, used=used, asked=1, what="requests a day", retry_after=_seconds_to_midnight())


def _allowance(tenant: Tenant, day: date) -> tuple[int, int]:
    """How many requests the tenant may send that day, and how many other processes have counted."""
    connection.ensure_connection()  # who waits for one holds nobody up
    with usage_settled():
        limit, written = requests_allowed(tenant, day)
        return limit, written - usage_landed(tenant=tenant, day=day)


def _check(*, limit: int, used: int, asked: int, what: str, retry_after: int | None = None) -> None:
    if used + asked > limit:
        raise HmiError(
            ErrorCode.QUOTA_EXCEEDED,
            f"The quota allows {limit:,} {what}; {used:,} are taken and this asks for {asked:,} more.",
            details={"quota": what, "limit": limit, "used": used, "asked": asked},
            retry_after=retry_after,
        )


def _seconds_to_midnight() -> int:
    now = datetime.now(UTC)
    midnight = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    return int((midnight - now).total_seconds()) + 1
