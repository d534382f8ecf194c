"""How often the API may be asked: what Django REST framework looks at before a view answers, and what counts
when a member's tenant is known."""

from collections.abc import Sequence
from typing import Any

from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from inference.api.rates.headers import tell
from inference.api.rates.limits import MANAGE, REQUESTS, Limit, Limits, limits_of, person_limits
from inference.api.rates.spending import spend
from tenants.accounts.models import ApiKey, Tenant, User


class ManageRate(BaseThrottle):
    """Of all but infer requests."""

    def allow_request(self, request: Request, view: Any) -> bool:
        limits = _limits(request)
        if limits is None:
            _count(request, _of_person(request, MANAGE))
        else:
            _count(request, limits.manage, shown=limits.tokens)
        return True


def count_member_request(request: Request, tenant: Tenant, what: str) -> None:
    """Count a request against its tenant's limit of ``what``, if a signed-in member sent it: its throttle did
    not know the tenant, and counted it against the person alone. Raises ``rate_limited``."""
    if key_of(request) is not None:
        return
    limits = limits_of(tenant, None)
    _count(request, limits.requests if what == REQUESTS else limits.manage, shown=limits.tokens)


class InferRate(BaseThrottle):
    """Of infer requests. Their tokens are counted when it is known whose model is asked."""

    def allow_request(self, request: Request, view: Any) -> bool:
        limits = _limits(request)
        if limits is None:
            _count(request, _of_person(request, REQUESTS))
        else:
            _count(request, limits.requests, shown=limits.tokens, next_to=limits.tokens)
        return True


def _limits(request: Request) -> Limits | None:
    """Those of the tenant, where authentication or the view's permissions have found it out."""
    tenant: Tenant | None = getattr(request, "tenant", None)
    return None if tenant is None else limits_of(tenant, key_of(request))


def key_of(request: Request) -> ApiKey | None:
    """The key that the request came with, if any."""
    return request.auth if isinstance(request.auth, ApiKey) else None


def _of_person(request: Request, what: str) -> list[Limit]:
    return person_limits(request.user, what) if isinstance(request.user, User) else []


def _count(
    request: Request, limits: Sequence[Limit], *, shown: Sequence[Limit] = (), next_to: Sequence[Limit] = ()
) -> None:
    tell(request._request, [*limits, *shown])
    spend(limits, next_to=next_to)
