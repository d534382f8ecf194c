"""The headers by which clients see how near their limits are."""

from collections.abc import Callable, Iterable, Sequence

from django.http import HttpRequest, HttpResponse

from inference.api.rates.limits import TOKENS
from inference.api.rates.shares import Limit, Standing
from inference.api.rates.spending import shares

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
        limits: Sequence[Limit] = getattr(request, TOLD, ())
        if limits:
            _write(response, "tokens", [limit for limit in limits if limit.what == TOKENS])
            _write(response, "requests", [limit for limit in limits if limit.what != TOKENS])
        return response


def _write(response: HttpResponse, kind: str, limits: Iterable[Limit]) -> None:
    standings = [shares().standing(limit) for limit in limits]
    if not standings:
        return
    nearest: Standing = min(standings, key=lambda standing: standing.left)
    response.headers[f"x-ratelimit-limit-{kind}"] = str(nearest.limit.per_minute)
    response.headers[f"x-ratelimit-remaining-{kind}"] = str(nearest.left)
    response.headers[f"x-ratelimit-reset-{kind}"] = f"{nearest.reset_s:.3g}s"
