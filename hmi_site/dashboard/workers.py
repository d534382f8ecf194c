"""The page of the inference workers: their state, their pipelines, and the commands to them."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import content_disposition_header
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST
from redis.exceptions import RedisError

from frontend.presenters.serving import generation_tiles, serving_tiles, worker_rows
from hmi_site.dashboard.serving import COMMANDS, memory_tiles, roots, serving_or_none, worker_command
from inference.api.serving import trace_of
from inference.queueing.worker_commands import DRAIN
from tenants.base.admin.base import staff_user
from tenants.base.admin.confirm import AffectedRow, Confirmation, confirmation_response, is_name_typed
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.plurals import counted

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
def workers(request: HttpRequest) -> HttpResponse:
    """The inference workers with a heartbeat, and the roots. A request by htmx gets only the live part."""
    serving = serving_or_none()
    context = {
        "serving": serving,
        "tiles": [*serving_tiles(serving), *memory_tiles(serving)] if serving else [],
        "generation_tiles": generation_tiles(serving) if serving else [],
        "workers": worker_rows(serving) if serving else [],
        "roots": roots(serving),
        "can_command": can_command(request),
    }
    if getattr(request, "htmx", False):
        return render(request, "hmi_site/workers_live.html", context)
    page = {**admin.site.each_context(request), "title": "Workers", **context}
    return render(request, "hmi_site/workers.html", page)


@admin.site.admin_view
@never_cache
@require_GET
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
    phrase = f"drain {counted(len(ready), 'worker')}"
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
