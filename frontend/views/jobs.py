"""Jobs: the list, the page of one, and its live part."""

from uuid import UUID

from django.http import HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from frontend.access import TenantRequest, tenant_page
from frontend.pages import act, show
from frontend.presenters.jobs import JobRow, figures, job_row, job_rows
from tenants.models import Role
from versiontree.models import Job
from versiontree.selectors import job_detail, jobs_of
from versiontree.services.jobs import job_cancel, job_retry

FINISHED_SHOWN = 50


@require_GET
@tenant_page()
def index(request: TenantRequest) -> HttpResponse:
    """What runs, and what ran."""
    jobs = job_rows(jobs_of(request.place.tenant))
    running = [job for job in jobs if job.active]
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
    return act(request, lambda: job_cancel(job=job, actor=request.user), "job", pk)


@require_POST
@tenant_page(Role.DEVELOPER)
def retry(request: TenantRequest, pk: UUID) -> HttpResponse:
    """Put a failed or cancelled job back in the queue."""
    job = job_detail(request.place.tenant, pk)
    return act(request, lambda: job_retry(job=job, actor=request.user), "job", pk)
