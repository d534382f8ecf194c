"""The start: which tenant, and what goes on there."""

from datetime import UTC, datetime
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.templatetags.static import static
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from frontend.access import TenantRequest, tenant_page
from frontend.pages import show
from frontend.presenters.data import DataRow, corpus_rows, dataset_rows
from frontend.presenters.hplms import hplm_rows
from frontend.presenters.jobs import JobRow, job_rows
from frontend.presenters.usage import usage_sum, usage_tiles
from tenants.models import Tenant
from tenants.selectors import corpora_of, datasets_of, quota_of, tenants_of, usage_of
from versiontree.models.job import ACTIVE
from versiontree.selectors import jobs_of, tree_for

RECENT = 5


@require_GET
@login_required
def start(request: HttpRequest) -> HttpResponse:
    """Go to the user's tenant, or to the administration; who has neither is told so."""
    first = tenants_of(request.user).first()
    if first is not None:
        return redirect("frontend:home", first.slug)
    if getattr(request.user, "is_staff", False):
        return redirect("admin:index")
    return render(request, "frontend/session/no_tenant.html")


@require_GET
def favicon(request: HttpRequest) -> HttpResponse:  # noqa: ARG001
    """Where browsers look for the icon of pages that do not name one: those of the administration."""
    return redirect(static("frontend/icon.svg"))


@require_GET
@tenant_page()
def home(request: TenantRequest) -> HttpResponse:
    """hPLMs, running jobs, usage of the month, and the newest data."""
    tenant = request.place.tenant
    hplms, running = hplm_rows(tree_for(tenant)), _running(tenant)
    usage = usage_sum(usage_of(tenant, datetime.now(UTC).date().replace(day=1)))
    counted = _counted(tenant, ready=sum(hplm.ready for hplm in hplms), hplms=len(hplms), jobs=len(running))
    context: dict[str, Any] = {"hplms": hplms, "running": running, "usage": usage, "data": _recent(tenant)}
    return show(request, "home.html", tiles=usage_tiles(usage, **counted), **context)


@require_GET
@never_cache
@tenant_page()
def running(request: TenantRequest) -> HttpResponse:
    """The running jobs alone, for the pages that show them live."""
    return show(request, "jobs/running.html", running=_running(request.place.tenant))


def _running(tenant: Tenant) -> list[JobRow]:
    return job_rows(jobs_of(tenant).filter(state__in=ACTIVE).order_by("created_at"))


def _counted(tenant: Tenant, **counts: int) -> dict[str, int]:
    quota = quota_of(tenant)
    return {**counts, "max_hplms": quota.max_hplms, "max_jobs": quota.max_active_jobs}


def _recent(tenant: Tenant) -> list[DataRow]:
    rows = [
        *dataset_rows(tenant, datasets_of(tenant)[:RECENT]),
        *corpus_rows(tenant, corpora_of(tenant)[:RECENT]),
    ]
    return sorted(rows, key=lambda row: row.at, reverse=True)[:RECENT]
