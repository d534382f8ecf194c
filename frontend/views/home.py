"""The start page, and the home page and the search of a tenant."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.contrib.auth.decorators import login_required
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.templatetags.static import static
from django.views.decorators.http import require_GET

from frontend.access import TenantRequest, tenant_member_required
from frontend.invitation_session import open_invitation
from frontend.presenters.data import DataRow, corpus_rows, dataset_rows
from frontend.presenters.home import home_tiles, onboarding_steps
from frontend.presenters.limits import quota_bars
from frontend.presenters.models import model_rows
from frontend.presenters.requests import requests_url
from frontend.presenters.search import search_results
from frontend.presenters.usage import share_bars
from frontend.shortcuts import render_page
from frontend.views.jobs import running_jobs
from tenants.accounts.models import Tenant
from tenants.accounts.selectors import api_keys_of, tenants_of
from tenants.base.ttl_cache import cached
from tenants.datasets.selectors.uploads import corpora_of, datasets_of
from tenants.usage.models import RequestStatus
from tenants.usage.selectors import (
    UsageBy,
    has_usage,
    month_of,
    most_requests,
    quota_of,
    usage_total,
)
from versiontree.tree.models.hplm import DEFAULT_ALIAS
from versiontree.tree.selectors.alias_history import recent_promotions
from versiontree.tree.selectors.browsing import hplm_summaries, hplms_search
from versiontree.tree.selectors.readiness import recent_usage
from versiontree.tree.selectors.versions import has_ready_root
from versiontree.tree.services.quota_reservations import is_counted

RECENT = 5
BUSIEST_SHOWN = 8
BUSIEST_CACHE_S = 60.0
MODELS_SHOWN = 8
ROLLBACK_OFFERED = timedelta(days=7)
"""How long after a promotion the home page offers to roll it back."""


@require_GET
@login_required
def start(request: HttpRequest) -> HttpResponse:
    """Redirect to the user's first tenant, to an open invitation or to the administration."""
    if mine := tenants_of(request.user):
        return redirect("frontend:home", mine[0].slug)
    if open_invitation(request) is not None:
        return redirect("frontend:invitation")
    if getattr(request.user, "is_staff", False):
        return redirect("admin:index")
    return render(request, "frontend/session/no_tenant.html")


@require_GET
def favicon(request: HttpRequest) -> HttpResponse:  # noqa: ARG001
    """Redirect to the icon. The pages of the administration do not name one."""
    return redirect(static("frontend/icon.svg"))


@require_GET
@tenant_member_required()
def home(request: TenantRequest) -> HttpResponse:
    """The home page of a tenant: first steps, running jobs, newest models and data, usage and quota."""
    tenant = request.access.tenant
    models, jobs = hplms_search(tenant), running_jobs(tenant)
    newest = list(models.order_by("-created_at")[:MODELS_SHOWN])
    has_default = Q(aliases__name=DEFAULT_ALIAS)  # at most one alias of a model has a name
    counts = models.order_by().aggregate(
        models=Count("pk", distinct=True), ready=Count("pk", distinct=True, filter=has_default)
    )
    month = month_of(datetime.now(UTC).date())
    usage = usage_total(tenant, *month)
    most_asked = _most_asked(tenant, *month) if usage.requests else {}
    data, quota = _recent_data(tenant), quota_of(tenant)
    promotions = {}
    if request.access.can_write:
        promotions = recent_promotions(newest, datetime.now(UTC) - ROLLBACK_OFFERED)
    counted_jobs = sum(is_counted(row.job) for row in jobs.active)
    context: dict[str, Any] = {
        "steps": onboarding_steps(
            roots=has_ready_root(),
            data=bool(data),
            models=counts["models"] > 0,
            ready=counts["ready"] > 0,
            keys=api_keys_of(tenant).exists(),
            requests=usage.requests > 0 or has_usage(tenant),
        ),
        "models": model_rows(hplm_summaries(tenant, newest), recent_usage(tenant, newest), promotions),
        "running_jobs": jobs,
        "usage": share_bars(most_asked, UsageBy.MODEL, {}, usage.requests),
        "data": data,
        "quota": quota_bars(tenant, quota, models=counts["models"], jobs=counted_jobs),
    }
    limits = {"max_models": quota.max_models, "max_jobs": quota.max_active_jobs}
    log_urls = {status: requests_url(tenant, status, month[0]) for status in RequestStatus}
    tiles = home_tiles(usage, log_urls=log_urls, **counts, **limits, jobs=counted_jobs)
    return render_page(request, "home.html", tiles=tiles, **context)


@require_GET
@tenant_member_required()
def search(request: TenantRequest) -> HttpResponse:
    """What has the words in its name, as a part of a page. Without words: the pages."""
    words = request.GET.get("q", "").strip()[:100]
    return render_page(request, "search/results.html", groups=search_results(request.access, words))


def _most_asked(tenant: Tenant, since: date, until: date) -> dict[str, int]:
    """Name -> requests of the models with the most in a period, at most BUSIEST_CACHE_S old: a large tenant
    has a hundred thousand rows a month."""
    return cached(
        f"most-asked:{tenant.pk}:{since}",
        lambda: most_requests(tenant, UsageBy.MODEL, since, until, limit=BUSIEST_SHOWN),
        BUSIEST_CACHE_S,
    )


def _recent_data(tenant: Tenant) -> list[DataRow]:
    rows = [
        *dataset_rows(tenant, datasets_of(tenant)[:RECENT]),
        *corpus_rows(tenant, corpora_of(tenant)[:RECENT]),
    ]
    return sorted(rows, key=lambda row: row.at, reverse=True)[:RECENT]
