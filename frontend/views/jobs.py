"""Jobs: the list, the page of one, and its live part."""

from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from frontend.access import TenantRequest, tenant_page
from frontend.pages import act, go, show
from frontend.presenters.jobs import figures, job_row, job_rows, latest_events
from frontend.presenters.progress import curves_of, notice_of
from tenants.models import Role
from versiontree.selectors import job_detail, jobs_of
from versiontree.services.jobs import job_cancel, job_retry

FINISHED_SHOWN = 50


@require_GET
@tenant_page()
def index(request: TenantRequest) -> HttpResponse:
    """What runs, and what ran."""
    jobs = job_rows(jobs_of(request.place.tenant))
    running = [job for job in reversed(jobs) if job.active]
    finished = [job for job in jobs if not job.active][:FINISHED_SHOWN]
    return show(request, "jobs/index.html", running=running, finished=finished)


@require_GET
@tenant_page()
def job(request: TenantRequest, pk: UUID) -> HttpResponse:
    """The page of a job: drawn from the database, so a reload loses nothing."""
    return show(request, "jobs/job.html", **_live(request, pk))


@require_GET
@never_cache
@tenant_page()
def progress(request: TenantRequest, pk: UUID) -> HttpResponse:
    """The live part alone; once the job has ended it asks for no more."""
    return show(request, "jobs/progress.html", swap=True, **_live(request, pk))


@require_POST
@tenant_page(Role.DEVELOPER)
def cancel(request: TenantRequest, pk: UUID) -> HttpResponse:
    """Cancel a job that waits; ask one that runs to stop."""
    job = job_detail(request.place.tenant, pk)
    act(request, lambda: job_cancel(job=job, actor=request.user))
    return go(request, "job", pk)


@require_POST
@tenant_page(Role.DEVELOPER)
def retry(request: TenantRequest, pk: UUID) -> HttpResponse:
    """Put a failed or cancelled job back in the queue."""
    job = job_detail(request.place.tenant, pk)
    act(request, lambda: job_retry(job=job, actor=request.user))
    return go(request, "job", pk)


def _live(request: TenantRequest, pk: UUID) -> dict[str, Any]:
    tenant = request.place.tenant
    job = job_detail(tenant, pk)
    steps = job_rows(jobs_of(tenant).filter(version=job.version_id).order_by("created_at", "kind"))
    return {
        "job": job_row(job),
        "events": latest_events(job),
        "steps": steps,
        "next": next((step for step in steps if step.after == job.pk and step.active), None),
        "curves": curves_of(job),
        "notice": notice_of(job),
        "metrics": figures(job.metrics),
    }
