"""Who is held to which limits by the minute."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from django.conf import settings

from inference.api.rates.local_buckets import Limit
from tenants.accounts.models import ApiKey, Tenant, User
from tenants.base.ttl_cache import cached
from tenants.usage.selectors import Rates, rates_of

TENANT, KEY, PERSON = "tenant", "key", "person"
REQUESTS, TOKENS, MANAGE = "requests", "tokens", "manage requests"


@dataclass(frozen=True, slots=True)
class Limits:
    """Those that requests of somebody count against: infer requests, their tokens, and all others."""

    requests: Sequence[Limit]
    tokens: Sequence[Limit]
    manage: Sequence[Limit]


def limits_of(tenant: Tenant, key: ApiKey | None) -> Limits:
    """The tenant's, and those of the key, which has one limit for requests of all kinds."""
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


def person_limits(user: User, what: str) -> list[Limit]:
    """Those of somebody signed in, where it is not known for which tenant they ask."""
    usual = settings.HMI_RATE_MANAGE if what == MANAGE else settings.HMI_RATE_REQUESTS
    return _limits(PERSON, f"{PERSON}:{user.pk}", what, usual)


def _limits(whom: str, name: str, what: str, per_minute: int | None) -> list[Limit]:
    return [Limit(f"{name}:{what}", whom, what, per_minute)] if per_minute else []
