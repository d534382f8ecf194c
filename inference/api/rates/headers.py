"""The headers by which clients see how near their limits are."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from django.http import HttpRequest, HttpResponse

from inference.api.pending_response import when_complete
from inference.api.rates.limits import TOKENS, Limit
from inference.api.rates.local_buckets import BucketState
from inference.api.rates.spending import local_buckets
from inference.number_format import format_number

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
