"""How often the API may be asked: what Django REST framework looks at before a view answers, and what counts
when a member's tenant is known."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from inference.api.pending_response import when_complete
from inference.api.rates.limits import MANAGE, REQUESTS, TOKENS, Limit, Limits, limits_of, person_limits
from inference.api.rates.spending import BucketState, local_buckets, spend
from inference.number_format import format_number
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


TOLD = "_rate_limits"


def tell(request: HttpRequest, limits: Sequence[Limit]) -> None:
    """Have the answer tell how these stand, once it is made."""
    setattr(request, TOLD, [*getattr(request, TOLD, ()), *limits])


class RateHeaders:
    """`x-ratelimit-{limit,remaining,reset}-{requests,tokens}`, where it is known who asks. Of several limits
    (the tenant's and the key's) the one of which the least is left."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        when_complete(response, partial(_add_headers, getattr(request, TOLD, ())))
        return response


def _add_headers(limits: Sequence[Limit], response: HttpResponse) -> None:
    """Add what there is to tell of these limits; nothing where there are none."""
    told = {
        **_told("tokens", [limit for limit in limits if limit.what == TOKENS]),
        **_told("requests", [limit for limit in limits if limit.what != TOKENS]),
    }
    for name, value in told.items():
        response.headers[name] = value


def _told(kind: str, limits: Iterable[Limit]) -> dict[str, str]:
    standings = [local_buckets().standing(limit) for limit in limits]
    if not standings:
        return {}
    nearest: BucketState = min(standings, key=lambda standing: standing.left)
    return {
        f"x-ratelimit-limit-{kind}": str(nearest.limit.amount),
        f"x-ratelimit-remaining-{kind}": str(nearest.left),
        f"x-ratelimit-reset-{kind}": f"{format_number(nearest.reset_s)}s",
    }
