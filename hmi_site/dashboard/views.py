"""The pages of the administration that are of no model: the live part of the dashboard, and the workers."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.conf import settings
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from frontend.presenters.charts import Tile
from frontend.presenters.serving import serving_tiles, worker_rows
from hmi_site.dashboard.alerts import disk_alerts, restart_alerts, serving_alerts, work_alerts
from hmi_site.dashboard.disk import stores
from hmi_site.dashboard.serving import ORDERS, levels_bar, memory_tiles, roots, serving_or_none, worker_order
from hmi_site.dashboard.work import Jobs, jobs_by_day, jobs_now, requests_by_day
from hmi_site.launcher.supervisor import recent_restarts
from inference.queueing.asking import DRAIN
from tenants.base.admin.base import staff_user
from tenants.base.admin.confirm import AffectedRow, Confirmation, confirmation_response, is_name_typed
from tenants.base.errors import ErrorCode, HmiError

View = Callable[..., HttpResponse]


WORKERS = "admin:serving-workers"


MAY_ORDER = "tree.change_root"


LAST = "Requests that come in meanwhile are refused until one of them is resumed or started."


def may_order(request: HttpRequest) -> bool:
    """Whether the person may tell workers what to do."""
    user: Any = request.user
    return bool(user.has_perm(MAY_ORDER))


def ordering(view: View) -> View:
    """For those who may tell workers what to do."""

    @wraps(view)
    def guarded(request: HttpRequest, **kwargs: Any) -> HttpResponse:
        if not may_order(request):
            raise PermissionDenied
        return view(request, **kwargs)

    return admin.site.admin_view(require_POST(guarded))


@admin.site.admin_view
@never_cache
@require_GET
def dashboard_live(request: HttpRequest) -> HttpResponse:
    """The part of the dashboard that is asked for again and again."""
    return render(request, "hmi_site/dashboard_live.html", live())


@admin.site.admin_view
@never_cache
@require_GET
def workers(request: HttpRequest) -> HttpResponse:
    """The inference workers that have a heartbeat, the roots, and who serves which."""
    serving = serving_or_none()
    context = {
        "serving": serving,
        "workers": worker_rows(serving) if serving else [],
        "roots": roots(serving),
        "may_order": may_order(request),
    }
    if getattr(request, "htmx", False):
        return render(request, "hmi_site/workers_live.html", context)
    page = {**admin.site.each_context(request), "title": "Serving workers", **context}
    return render(request, "hmi_site/workers.html", page)


@ordering
def tell(request: HttpRequest, worker: str, what: str) -> HttpResponse:
    """Tell one worker. To drain the last that takes requests asks for its name."""
    others = [name for name in _ready() if name != worker]
    if what == DRAIN and not others and not is_name_typed(request, worker):
        confirmation = Confirmation(
            "drain", "Drain the last worker?", worker, f"No other takes requests. {LAST}"
        )
        return _confirmation(request, confirmation, [worker])
    _send_orders(request, [worker], what)
    return redirect(WORKERS)


@ordering
def drain_all(request: HttpRequest) -> HttpResponse:
    """Drain all that take requests, once that was typed."""
    ready = _ready()
    phrase = f"drain {len(ready)} workers"
    if not ready:
        messages.warning(request, "No inference worker takes requests.")
    elif is_name_typed(request, phrase):
        _send_orders(request, ready, DRAIN)
    else:
        return _confirmation(request, Confirmation("drain", "Drain all workers?", phrase, LAST), ready)
    return redirect(WORKERS)


def _ready() -> list[str]:
    serving = serving_or_none()
    return [worker.name for worker in serving.workers if worker.state == "ready"] if serving else []


def _send_orders(request: HttpRequest, names: list[str], what: str) -> None:
    for name in names:
        try:
            worker_order(worker=name, what=what, actor=staff_user(request))
            messages.success(request, f"{name} is {ORDERS[what]}.")
        except HmiError as error:
            if error.code not in (ErrorCode.NOT_FOUND, ErrorCode.WORKER_UNAVAILABLE):
                raise
            messages.error(request, error.message)


def _confirmation(request: HttpRequest, confirmation: Confirmation, names: list[str]) -> HttpResponse:
    context = {**admin.site.each_context(request), "back": reverse(WORKERS)}
    return confirmation_response(
        request, confirmation, rows=[AffectedRow(name) for name in names], hidden=[], context=context
    )


def board(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG001 - unfold's signature
    """What unfold asks for: the context of the page, with all figures."""
    held = stores()
    return {
        **context,
        **live(),
        "title": "Dashboard",
        "stores": held,
        "disk_alerts": list(disk_alerts(held)),
        "charts": [("Infer requests by day", requests_by_day()), ("Jobs by day", jobs_by_day())],
    }


def live() -> dict[str, Any]:
    """What changes while one looks; a handful of queries, and one question to Valkey."""
    serving, jobs = serving_or_none(), jobs_now()
    bar, legend = levels_bar(serving.workers if serving else [])
    restarts = recent_restarts(settings.HMI_RUNTIME_DIR, timezone.now())
    return {
        "alerts": [
            *serving_alerts(serving, roots(serving)),
            *restart_alerts(restarts),
            *work_alerts(jobs),
        ],
        "tiles": serving_tiles(serving) if serving else [],
        "memory_tiles": memory_tiles(serving) if serving else [],
        "levels": bar,
        "legend": legend,
        "jobs": jobs,
        "job_tiles": _job_tiles(jobs),
    }


def _job_tiles(jobs: Jobs) -> list[Tile]:
    return [
        Tile("Running", f"{jobs.running:,}"),
        Tile("Queued", f"{jobs.queued:,}", f"{jobs.waiting:,} waiting for another" if jobs.waiting else ""),
        Tile("Succeeded", f"{jobs.done_today:,}", "today"),
        Tile("Failed", f"{jobs.failed_today:,}", "today"),
    ]
