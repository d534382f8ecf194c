"""Reads of jobs. Each says whose rows it returns; ``tenant=None`` is the platform; foreign means not
found."""

from uuid import UUID

from django.db.models import Q, QuerySet

from tenants.accounts.models import Tenant
from tenants.base.errors import not_found
from versiontree.jobs.models import Job, JobEvent


def jobs_of(tenant: Tenant | None) -> QuerySet[Job]:
    """The tenant's jobs (None: the platform's), newest first, with their versions."""
    return Job.unscoped.filter(tenant=tenant).select_related(
        "version__root", "version__domain__root", "version__hplm__tenant", "tenant", "after"
    )


def job_detail(tenant: Tenant | None, job_id: UUID | str) -> Job:
    """One of the owner's jobs, or ``not_found``."""
    try:
        wanted = UUID(str(job_id))
    except ValueError as error:
        raise not_found("job", param="job") from error
    return _found(jobs_of(tenant).filter(pk=wanted).first())


def job_of_anybody(job_id: UUID) -> Job:
    """For staff: a job, whoever's, or ``not_found``."""
    return _found(Job.unscoped.select_related("tenant").filter(pk=job_id).first())


def job_events(job: Job, *, after: int = 0) -> QuerySet[JobEvent]:
    """What happened to the job since the event with this id, oldest first."""
    return JobEvent.unscoped.filter(job=job, pk__gt=after).order_by("pk")


def jobs_found(tenant: Tenant | None, *, words: str = "", kind: str = "") -> QuerySet[Job]:
    """The tenant's jobs (None: the platform's), newest first: those of a kind, those with these words in the
    name of what they are for."""
    found = jobs_of(tenant).filter(kind=kind) if kind else jobs_of(tenant)
    for word in words.split():
        of_hplm, of_domain = Q(version__hplm__name__icontains=word), Q(version__domain__name__icontains=word)
        found = found.filter(of_hplm | of_domain)
    return found


def _found(job: Job | None) -> Job:
    if job is None:
        raise not_found("job")
    return job
