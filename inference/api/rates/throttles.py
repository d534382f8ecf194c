"""Rate limits of the API as throttles of Django REST framework, and the headers that report them."""

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
    """Limits all requests but infer requests."""

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
    """Limits infer requests. Their tokens are counted once the model is known."""

    def allow_request(self, request: Request, view: Any) -> bool:
        limits = _limits(request)
        if limits is None:
            _count(request, _of_person(request, REQUESTS))
        else:
            _count(request, limits.requests, shown=limits.tokens, next_to=limits.tokens)
        return True


def _limits(request: Request) -> Limits | None:
    """The limits of the request's tenant; None while authentication and permissions know no tenant."""
    tenant: Tenant | None = getattr(request, "tenant", None)
    return None if tenant is None else limits_of(tenant, key_of(request))


def key_of(request: Request) -> ApiKey | None:
    """The API key of the request, or None."""
    return request.auth if isinstance(request.auth, ApiKey) else None


def _of_person(request: Request, what: str) -> list[Limit]:
    return person_limits(request.user, what) if isinstance(request.user, User) else []


def _count(
    request: Request, limits: Sequence[Limit], *, shown: Sequence[Limit] = (), next_to: Sequence[Limit] = ()
) -> None:
    report_limits(request._request, [*limits, *shown])
    spend(limits, next_to=next_to)


REPORTED = "_rate_limits"


def report_limits(request: HttpRequest, limits: Sequence[Limit]) -> None:
    """Add these limits to those whose state the response's headers report."""
    setattr(request, REPORTED, [*getattr(request, REPORTED, ()), *limits])


class RateHeaders:
    """`x-ratelimit-{limit,remaining,reset}-{requests,tokens}`, where it is known who asks. Of several limits
    (the tenant's and the key's) the one of which the least is left."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        when_complete(response, partial(_add_headers, getattr(request, REPORTED, ())))
        return response


def _add_headers(limits: Sequence[Limit], response: HttpResponse) -> None:
    """Add the headers of these limits; none without limits."""
    headers = {
        **_headers("tokens", [limit for limit in limits if limit.what == TOKENS]),
        **_headers("requests", [limit for limit in limits if limit.what != TOKENS]),
    }
    for name, value in headers.items():
        response.headers[name] = value


def _headers(kind: str, limits: Iterable[Limit]) -> dict[str, str]:
    states = [local_buckets().state(limit) for limit in limits]
    if not states:
        return {}
    nearest: BucketState = min(states, key=lambda state: state.left)
    return {
        f"x-ratelimit-limit-{kind}": str(nearest.limit.amount),
        f"x-ratelimit-remaining-{kind}": str(nearest.left),
        f"x-ratelimit-reset-{kind}": f"{format_number(nearest.reset_s)}s",
    }
