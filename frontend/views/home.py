"""The start: which tenant, and what goes on there."""

from datetime import UTC, datetime
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.templatetags.static import static
from django.views.decorators.http import require_GET

from frontend.access import TenantRequest, tenant_member_required
from frontend.invitation_session import open_invitation
from frontend.presenters.charts import Bar, usage_tiles
from frontend.presenters.data import DataRow, corpus_rows, dataset_rows
from frontend.presenters.limits import onboarding, quota_bars
from frontend.presenters.models import hplm_rows
from frontend.presenters.usage_page import share_bars
from frontend.shortcuts import render_page
from frontend.views.jobs import at_work
from tenants.accounts.models import Tenant
from tenants.accounts.selectors import api_keys_of, tenants_of
from tenants.datasets.selectors.uploads import corpora_of, datasets_of, storage_used
from tenants.usage.models import Quota
from tenants.usage.selectors import (
    UsageBy,
    has_usage,
    month_of,
    most_requests,
    quota_of,
    requests_today,
    usage_total,
)
from versiontree.tree.models.hplm import DEFAULT_ALIAS
from versiontree.tree.selectors.browsing import hplm_summaries, hplms_search
from versiontree.tree.selectors.readiness import recent_usage
from versiontree.tree.selectors.versions import artifact_bytes, domains_visible_to

RECENT = 5
BUSIEST_SHOWN = 8
HPLMS_SHOWN = 8


@require_GET
@login_required
def start(request: HttpRequest) -> HttpResponse:
    """Go to the user's tenant, or to the administration; who has neither is told so."""
    if mine := tenants_of(request.user):
        return redirect("frontend:home", mine[0].slug)
    if open_invitation(request) is not None:
        return redirect("frontend:invitation")
    if getattr(request.user, "is_staff", False):
        return redirect("admin:index")
    return render(request, "frontend/session/no_tenant.html")


@require_GET
def favicon(request: HttpRequest) -> HttpResponse:  # noqa: ARG001
    """Where browsers look for the icon of pages that do not name one: those of the administration."""
    return redirect(static("frontend/icon.svg"))


@require_GET
@tenant_member_required()
def home(request: TenantRequest) -> HttpResponse:
    """What is still to be set up, running jobs, the newest models, usage against the quota, new data."""
    tenant = request.access.tenant
    hplms, found = hplms_search(tenant), at_work(tenant)
    newest = list(hplms.order_by("-created_at")[:HPLMS_SHOWN])
    counts = {"hplms": hplms.count(), "ready": hplms.filter(aliases__name=DEFAULT_ALIAS).count()}
    month = month_of(datetime.now(UTC).date())
    usage = usage_total(tenant, *month)
    most_asked = most_requests(tenant, UsageBy.MODEL, *month, limit=BUSIEST_SHOWN)
    data, quota = _recent(tenant), quota_of(tenant)
    context: dict[str, Any] = {
        "steps": onboarding(
            data=bool(data),
            hplms=counts["hplms"] > 0,
            ready=counts["ready"] > 0,
            keys=api_keys_of(tenant).exists(),
            asked=usage.requests > 0 or has_usage(tenant),
        ),
        "hplms": hplm_rows(hplm_summaries(tenant, newest), recent_usage(tenant, newest)),
        "at_work": found,
        "usage": share_bars(most_asked, UsageBy.MODEL, {}, usage.requests),
        "data": data,
        "quota": _quota(tenant, quota, hplms=counts["hplms"], jobs=len(found.active)),
    }
    most = {"max_models": quota.max_models, "max_jobs": quota.max_active_jobs}
    tiles = usage_tiles(usage, **counts, **most, jobs=len(found.active))
    return render_page(request, "home.html", tiles=tiles, **context)


def _quota(tenant: Tenant, quota: Quota, *, hplms: int, jobs: int) -> list[Bar]:
    return quota_bars(
        quota,
        hplms=hplms,
        domains=domains_visible_to(tenant).filter(tenant=tenant).count(),
        jobs=jobs,
        requests=requests_today(tenant),
        stored=storage_used(tenant) + artifact_bytes(tenant),
    )


def _recent(tenant: Tenant) -> list[DataRow]:
    rows = [
        *dataset_rows(tenant, datasets_of(tenant)[:RECENT]),
        *corpus_rows(tenant, corpora_of(tenant)[:RECENT]),
    ]
    return sorted(rows, key=lambda row: row.at, reverse=True)[:RECENT]
