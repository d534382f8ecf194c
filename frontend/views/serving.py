"""The state of serving, for staff."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.http import content_disposition_header
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET
from redis.exceptions import RedisError

from frontend.presenters.serving import serving_tiles, worker_rows
from inference.api.serving import serving_now, trace_of
from tenants.base.errors import ErrorCode, HmiError


def staff_only(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Decorate a view for staff: anonymous users are redirected to the login page, others get not_found."""

    @wraps(view)
    def page(request: HttpRequest, **kwargs: Any) -> HttpResponse:
        if not getattr(request.user, "is_staff", False):
            raise HmiError(ErrorCode.NOT_FOUND, "This page does not exist, or you have no access to it.")
        return view(request, **kwargs)

    return never_cache(require_GET(login_required(page)))


@staff_only
def page(request: HttpRequest) -> HttpResponse:
    """The workers with throughput, latencies and pipelines. A request by htmx gets only the live part."""
    try:
        serving = serving_now()
    except RedisError:
        context: dict[str, Any] = {"unreachable": True}
    else:
        context = {"tiles": serving_tiles(serving), "workers": worker_rows(serving)}
    live = getattr(request, "htmx", False)
    return render(request, "frontend/serving/live.html" if live else "frontend/serving/page.html", context)


@staff_only
def trace(request: HttpRequest, worker: str) -> HttpResponse:  # noqa: ARG001 - Django's signature
    """Download the latest pipeline trace of a worker, for the trace viewers of Chrome and Perfetto."""
    try:
        events = trace_of(worker)
    except RedisError:
        raise HmiError(ErrorCode.WORKER_UNAVAILABLE, "The queue cannot be reached.") from None
    if events is None:
        raise HmiError(ErrorCode.NOT_FOUND, "No running inference worker has this name.")
    name = content_disposition_header(True, f"trace-{worker}.json")
    return HttpResponse(events, content_type="application/json", headers={"Content-Disposition": name})
