"""Admin views that belong to no model: the dashboard and the inference workers."""

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
from hmi_site.dashboard.alerts import disk_alerts, drift_alerts, restart_alerts, serving_alerts, work_alerts
from hmi_site.dashboard.disk import stores
from hmi_site.dashboard.serving import (
    COMMANDS,
    level_charts,
    memory_tiles,
    roots,
    serving_or_none,
    worker_command,
)
from hmi_site.dashboard.work import Jobs, jobs_by_day, jobs_now, requests_by_day
from hmi_site.launcher.supervisor import recent_restarts
from inference.queueing.worker_commands import DRAIN
from tenants.base.admin.base import staff_user
from tenants.base.admin.confirm import AffectedRow, Confirmation, confirmation_response, is_name_typed
from tenants.base.errors import ErrorCode, HmiError

View = Callable[..., HttpResponse]
WORKERS_URL = "admin:serving-workers"
COMMAND_PERMISSION = "tree.change_root"
NO_WORKER_LEFT = "New requests are refused until a worker is resumed or started."


def can_command(request: HttpRequest) -> bool:
    """Whether the user may send commands to workers."""
    user: Any = request.user
    return bool(user.has_perm(COMMAND_PERMISSION))


def command_view(view: View) -> View:
    """Decorator: a POST view for users who may send commands to workers."""

    @wraps(view)
    def guarded(request: HttpRequest, **kwargs: Any) -> HttpResponse:
        if not can_command(request):
            raise PermissionDenied
        return view(request, **kwargs)

    return admin.site.admin_view(require_POST(guarded))


@admin.site.admin_view
@never_cache
@require_GET
def dashboard_live(request: HttpRequest) -> HttpResponse:
    """The part of the dashboard that the page polls."""
    return render(request, "hmi_site/dashboard_live.html", live_context())


@admin.site.admin_view
@never_cache
@require_GET
def workers(request: HttpRequest) -> HttpResponse:
    """The inference workers with a heartbeat, and the roots."""
    serving = serving_or_none()
    context = {
        "serving": serving,
        "workers": worker_rows(serving) if serving else [],
        "roots": roots(serving),
        "can_command": can_command(request),
    }
    if getattr(request, "htmx", False):
        return render(request, "hmi_site/workers_live.html", context)
    page = {**admin.site.each_context(request), "title": "Serving workers", **context}
    return render(request, "hmi_site/workers.html", page)


@command_view
def command_worker(request: HttpRequest, worker: str, command: str) -> HttpResponse:
    """Send a command to a worker. Draining the last ready worker needs a confirmation."""
    others = [name for name in _ready() if name != worker]
    if command == DRAIN and not others and not is_name_typed(request, worker):
        confirmation = Confirmation(
            "drain", "Drain the last worker?", worker, f"No other worker takes requests. {NO_WORKER_LEFT}"
        )
        return _confirmation(request, confirmation, [worker])
    _send_command(request, [worker], command)
    return redirect(WORKERS_URL)


@command_view
def drain_all(request: HttpRequest) -> HttpResponse:
    """Drain all ready workers, after a confirmation."""
    ready = _ready()
    phrase = f"drain {len(ready)} workers"
    if not ready:
        messages.warning(request, "No inference worker takes requests.")
    elif is_name_typed(request, phrase):
        _send_command(request, ready, DRAIN)
    else:
        return _confirmation(
            request, Confirmation("drain", "Drain all workers?", phrase, NO_WORKER_LEFT), ready
        )
    return redirect(WORKERS_URL)


def _ready() -> list[str]:
    serving = serving_or_none()
    return [worker.name for worker in serving.workers if worker.state == "ready"] if serving else []


def _send_command(request: HttpRequest, names: list[str], command: str) -> None:
    for name in names:
        try:
            worker_command(worker=name, command=command, actor=staff_user(request))
            messages.success(request, f"{name} is {COMMANDS[command]}.")
        except HmiError as error:
            if error.code not in (ErrorCode.NOT_FOUND, ErrorCode.WORKER_UNAVAILABLE):
                raise
            messages.error(request, error.message)


def _confirmation(request: HttpRequest, confirmation: Confirmation, names: list[str]) -> HttpResponse:
    context = {**admin.site.each_context(request), "back": reverse(WORKERS_URL)}
    return confirmation_response(
        request, confirmation, rows=[AffectedRow(name) for name in names], hidden=[], context=context
    )


def dashboard_context(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG001 - unfold's signature
    """The context of the dashboard (unfold's DASHBOARD_CALLBACK)."""
    disks = stores()
    return {
        **context,
        **live_context(),
        "title": "Dashboard",
        "stores": disks,
        "disk_alerts": list(disk_alerts(disks)),
        "charts": [("Infer requests by day", requests_by_day()), ("Jobs by day", jobs_by_day())],
    }


def live_context() -> dict[str, Any]:
    """The context of the polled part: a few queries, and one request to Redis."""
    serving, jobs = serving_or_none(), jobs_now()
    restarts = recent_restarts(settings.HMI_RUNTIME_DIR, timezone.now())
    return {
        "alerts": [
            *serving_alerts(serving, roots(serving)),
            *restart_alerts(restarts),
            *work_alerts(jobs),
            *drift_alerts(),
        ],
        "tiles": serving_tiles(serving) if serving else [],
        "memory_tiles": memory_tiles(serving) if serving else [],
        "level_charts": level_charts(serving.workers) if serving else [],
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
