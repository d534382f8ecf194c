"""The dashboard of the admin: what needs attention, what the workers and jobs do, and for whom."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from django.conf import settings
from django.contrib import admin
from django.db.models import Sum
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from frontend.presenters.charts import Tile
from frontend.presenters.serving import generation_tiles, serving_tiles
from hmi_site.dashboard.alerts import (
    disk_alerts,
    drift_alerts,
    low_disk_alerts,
    quota_alerts,
    restart_alerts,
    serving_alerts,
    work_alerts,
)
from hmi_site.dashboard.demo import demo_card
from hmi_site.dashboard.disk import disks_in_use
from hmi_site.dashboard.quotas import quotas_used_up
from hmi_site.dashboard.serving import level_charts, roots, serving_or_none
from hmi_site.dashboard.work import Jobs, jobs_by_day, jobs_now, requests_by_day
from hmi_site.dashboard.workers import can_command
from hmi_site.launcher.supervisor import recent_restarts
from tenants.usage.models import UsageSum

HAS_SLOW_ALERTS = "slow"
"""The query parameter of the polled part that says that the page shows alerts beside it."""
MAX_TENANTS_SHOWN: Final = 8


@admin.site.admin_view
@never_cache
@require_GET
def dashboard_live(request: HttpRequest) -> HttpResponse:
    """The part of the dashboard that the page polls."""
    context = {**live_context(), "slow_alerts": HAS_SLOW_ALERTS in request.GET}
    return render(request, "hmi_site/dashboard_live.html", context)


def dashboard_context(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """The context of the dashboard (unfold's DASHBOARD_CALLBACK)."""
    disks = disks_in_use()
    return {
        **context,
        **live_context(),
        "title": "Dashboard",
        "demo": demo_card() if can_command(request) else None,
        "disks": disks,
        "slow_alerts": [*disk_alerts(disks), *quota_alerts(quotas_used_up())],
        "busiest": busiest_tenants(),
        "charts": [("Requests by day", requests_by_day()), ("Jobs by day", jobs_by_day())],
    }


def live_context() -> dict[str, Any]:
    """The context of the polled part: a few queries, and one request to Redis."""
    serving, jobs = serving_or_none(), jobs_now()
    restarts = recent_restarts(settings.HMI_RUNTIME_DIR, timezone.now())
    return {
        "alerts": [
            *serving_alerts(serving, roots(serving)),
            *low_disk_alerts(),
            *restart_alerts(restarts),
            *work_alerts(jobs),
            *drift_alerts(),
        ],
        "tiles": serving_tiles(serving) if serving else [],
        "generation_tiles": generation_tiles(serving) if serving else [],
        "level_charts": level_charts(serving.workers) if serving else [],
        "jobs": jobs,
        "job_tiles": _job_tiles(jobs),
    }


def _job_tiles(jobs: Jobs) -> list[Tile]:
    waiting = f"{jobs.waiting:,} waiting for another job" if jobs.waiting else ""
    return [
        Tile("Running", f"{jobs.running:,}"),
        Tile("Queued", f"{jobs.queued:,}", waiting),
        Tile("Succeeded", f"{jobs.done_today:,}", "today"),
        Tile("Failed", f"{jobs.failed_today:,}", "today"),
    ]


@dataclass(frozen=True, slots=True)
class TenantLoad:
    """A tenant's use of the inference workers today (UTC). ``share`` is its part of all machine time."""

    tenant: int
    slug: str
    requests: int
    tokens: int
    seconds: float
    share: float


def busiest_tenants() -> list[TenantLoad]:
    """The tenants with the most machine time today, then with the most tokens (two queries)."""
    today = UsageSum.unscoped.filter(day=datetime.now(UTC).date()).order_by()
    all_ms = float(today.aggregate(total=Sum("busy_ms", default=0.0))["total"])
    sums = today.values_list("tenant", "tenant__slug").annotate(
        sum_requests=Sum("requests"), sum_tokens=Sum("tokens"), sum_ms=Sum("busy_ms")
    )
    rows: Any = sums.order_by("-sum_ms", "-sum_tokens", "tenant__slug")[:MAX_TENANTS_SHOWN]
    return [
        TenantLoad(pk, slug, requests, tokens, ms / 1000, ms / all_ms if all_ms else 0.0)
        for pk, slug, requests, tokens, ms in rows
    ]
