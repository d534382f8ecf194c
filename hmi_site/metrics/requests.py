"""Prometheus metrics of HTTP requests, and the `/metrics` endpoint."""

import secrets
import time
from collections.abc import Callable
from functools import partial

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from hmi_site.metrics.platform import PlatformCollector
from inference.api.pending_response import when_complete

UNRESOLVED = "unresolved"
"""The label of requests that reach no view: static files, unknown URLs, early rejections."""
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
disable_created_metrics()  # type: ignore[no-untyped-call] # they double the number of series
registry = CollectorRegistry()
ProcessCollector(registry=registry)
responses = Counter("hmi_http_requests", "HTTP requests answered", ["view", "status"], registry=registry)
durations = Histogram(
    "hmi_http_request_seconds",
    "Time until a request is answered, of a stream until it begins",
    ["view"],
    buckets=BUCKETS,
    registry=registry,
)


class RequestMetrics:
    """Middleware: counts requests and measures their duration.

    Placed before other middleware, to count their rejections too. Labels are view names: URLs are
    unbounded.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        started = time.perf_counter()
        response = self.get_response(request)
        view = request.resolver_match.view_name if request.resolver_match else UNRESOLVED
        when_complete(response, partial(_count, view, started))
        return response


def _count(view: str, started: float, response: HttpResponse) -> None:
    responses.labels(view, response.status_code).inc()
    durations.labels(view).observe(time.perf_counter() - started)


registry.register(PlatformCollector())


@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """`/metrics` in Prometheus' format, for staff and for the bearer of HMI_METRICS_TOKEN. 404 for others."""
    if request.method not in {"GET", "HEAD"} or not (_has_token(request) or _is_staff(request)):
        raise Http404
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


def _has_token(request: HttpRequest) -> bool:
    """Checked first: it works while the database is down."""
    token: str = settings.HMI_METRICS_TOKEN
    given = request.headers.get("Authorization", "").encode("utf-8", "surrogatepass")
    return bool(token) and secrets.compare_digest(given, f"Bearer {token}".encode())


def _is_staff(request: HttpRequest) -> bool:
    return request.user.is_authenticated and request.user.is_staff
