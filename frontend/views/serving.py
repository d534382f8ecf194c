"""How serving stands: for those who run the platform."""

from typing import Any

from django.contrib.auth.decorators import user_passes_test
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET
from redis.exceptions import RedisError

from frontend.presenters.serving import serving_tiles, worker_rows
from inference.api.serving import serving_now
from tenants.errors import ErrorCode, HmiError


@never_cache
@require_GET
@user_passes_test(lambda user: user.is_authenticated)
def page(request: HttpRequest) -> HttpResponse:
    """The workers, their throughput and latencies, and what their pipelines do; live."""
    if not getattr(request.user, "is_staff", False):
        raise HmiError(ErrorCode.NOT_FOUND, "There is no such page, or it is not yours to see.")
    try:
        serving = serving_now()
    except RedisError:
        context: dict[str, Any] = {"lost": True}
    else:
        context = {"tiles": serving_tiles(serving), "workers": worker_rows(serving)}
    live = getattr(request, "htmx", False)
    return render(request, "frontend/serving/live.html" if live else "frontend/serving/page.html", context)
