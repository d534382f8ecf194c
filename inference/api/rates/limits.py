"""Limits of a tenant, key or person: by the minute (`limits_of`), and the tenant's requests of a day
(`daily_limit`). `LocalBuckets` holds requests to them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from django.conf import settings

from tenants.accounts.models import ApiKey, Tenant, User
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.ttl_cache import cached
from tenants.usage.selectors import Rates, rates_of
from tenants.usage.services.quotas import daily_requests_exceeded, quota_check_requests, seconds_to_midnight

TENANT, KEY, PERSON = "tenant", "key", "person"
REQUESTS, TOKENS, MANAGE, DAILY = "requests", "tokens", "manage requests", "requests a day"
FORGET_AFTER_S = 60.0
"""So long after the longest request, what a process that was killed had taken of a day's limit is free."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A rate limit: ``amount`` of ``what`` a minute for ``whom``. ``bucket`` names its token bucket."""

    bucket: str
    whom: str
    what: str
    amount: int

    @property
    def full(self) -> int:
        """The capacity of the bucket."""
        return self.amount

    @property
    def per_second(self) -> float:
        """The refill rate of the bucket."""
        return self.amount / 60

    @property
    def forget_after_s(self) -> float:
        """Seconds after which an unused bucket counts as full; 0: only when it has refilled."""
        return 0.0

    def least(self, amount: int) -> int:
        """The level that a request for ``amount`` needs. More than a minute's worth overdraws the bucket."""
        return min(amount, self.amount)

    def wait_s(self, missing: float) -> float:
        """Seconds until ``missing`` is refilled."""
        return max(0.0, missing / self.per_second)

    def exceeded(self, amount: int, *, left: float, wait_s: int) -> HmiError:
        """The error of a request for ``amount`` of which only ``left`` is there."""
        return HmiError(
            ErrorCode.RATE_LIMITED,
            f"Rate limit exceeded: {self.amount:,} {self.what} per minute for this {self.whom}."
            f" Try again in {wait_s} s.",
            details={"of": self.whom, "limit": self.what, "per_minute": self.amount, "asked": amount},
            retry_after=wait_s,
        )


@dataclass(frozen=True, slots=True)
class DailyLimit(Limit):
    """A limit of a day (UTC) without refill. ``counted`` requests are in the usage already, so a new bucket
    holds the rest."""

    counted: int = field(compare=False, default=0)

    @property
    def full(self) -> int:
        return self.amount - self.counted

    @property
    def per_second(self) -> float:
        return 0.0

    @property
    def forget_after_s(self) -> float:
        return max(settings.HMI_GENERATION_DEADLINE_S, settings.HMI_INFER_DEADLINE_S) + FORGET_AFTER_S

    def least(self, amount: int) -> int:
        return amount

    def wait_s(self, missing: float) -> float:
        return float(seconds_to_midnight())

    def exceeded(self, amount: int, *, left: float, wait_s: int) -> HmiError:
        return daily_requests_exceeded(limit=self.amount, used=self.amount - max(0, int(left)))


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a caller: on infer requests, their tokens, and all other requests."""

    requests: Sequence[Limit]
    tokens: Sequence[Limit]
    manage: Sequence[Limit]


def limits_of(tenant: Tenant, key: ApiKey | None) -> Limits:
    """The limits of the tenant and of the key, which has one limit for requests of all kinds."""
    found = cached(f"rates:{tenant.pk}", lambda: tuple(rates_of(tenant)), settings.HMI_KEY_CACHE_S)
    if key is None:
        return _limits_of(tenant.pk, Rates(*found))
    return _limits_of(tenant.pk, Rates(*found), key.pk, key.requests_per_minute, key.tokens_per_minute)


@lru_cache(10_000)
def _limits_of(
    tenant: int, rates: Rates, key: str = "", requests: int | None = None, tokens: int | None = None
) -> Limits:
    of_tenant, of_key = f"{TENANT}:{tenant}", f"{KEY}:{key}"
    own = _limits(KEY, of_key, REQUESTS, requests)
    return Limits(
        requests=_limits(TENANT, of_tenant, REQUESTS, rates.requests_per_minute) + own,
        tokens=_limits(TENANT, of_tenant, TOKENS, rates.tokens_per_minute)
        + _limits(KEY, of_key, TOKENS, tokens),
        manage=_limits(TENANT, of_tenant, MANAGE, rates.manage_per_minute) + own,
    )


def daily_limit(tenant: Tenant) -> DailyLimit:
    """The tenant's requests of today. Raises ``quota_exceeded`` if the usage has as many already."""
    today = quota_check_requests(tenant=tenant)
    return DailyLimit(
        # A quota that was changed has another bucket, which begins with what the usage says.
        f"{TENANT}:{tenant.pk}:{DAILY}:{today.day}:{today.limit}",
        TENANT,
        DAILY,
        today.limit,
        today.used,
    )


def person_limits(user: User, what: str) -> list[Limit]:
    """The limits of a signed-in user while the tenant of the request is unknown."""
    usual = settings.HMI_RATE_MANAGE if what == MANAGE else settings.HMI_RATE_REQUESTS
    return _limits(PERSON, f"{PERSON}:{user.pk}", what, usual)


def _limits(whom: str, name: str, what: str, per_minute: int | None) -> list[Limit]:
    return [Limit(f"{name}:{what}", whom, what, per_minute)] if per_minute else []
