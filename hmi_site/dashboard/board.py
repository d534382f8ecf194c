"""The first page of the administration: how the platform stands."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone

from frontend.presenters.serving import serving_tiles
from frontend.presenters.tiles import Tile
from hmi_site.dashboard.alerts import disk_alerts, restart_alerts, serving_alerts, work_alerts
from hmi_site.dashboard.disk import stores
from hmi_site.dashboard.serving import levels_bar, memory_tiles, roots, serving_or_none
from hmi_site.dashboard.work import Jobs, jobs_by_day, jobs_now, requests_by_day
from hmi_site.launcher.restarts import recent_restarts


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
