"""Create and expire background jobs: those without a version (``tenants.base.background_jobs``)."""

from django.db import transaction
from django.utils import timezone

from tenants.accounts.models import Tenant, User
from tenants.base.background_jobs import BackgroundKind, background_work
from versiontree.jobs.models import ACTIVE, BACKGROUND_RETENTION, TERMINAL, Job, JobEvent, JobState
from versiontree.jobs.services.transitions import job_dispatch


@transaction.atomic
def background_job_create(
    kind: BackgroundKind, subject: str, tenant: Tenant | None, created_by: User | None = None
) -> Job:
    """Create a job that a worker runs at once. ``IntegrityError`` if one for the subject is active."""
    now = timezone.now()
    job = Job.unscoped.create(
        kind=kind,
        subject=subject,
        tenant=tenant,
        created_by=created_by,
        state=JobState.QUEUED,
        queued_at=now,
        dispatched_at=now,
        max_attempts=background_work[kind].max_attempts,
        priority=background_work[kind].priority,
    )
    JobEvent.unscoped.create(job=job, kind=JobState.QUEUED)
    job_dispatch(job_id=job.pk, kind=kind, priority=job.priority)
    return job


def background_job_is_active(kind: BackgroundKind, subject: str) -> bool:
    """Whether a job of this kind for this subject waits or runs."""
    return Job.unscoped.filter(kind=kind, subject=subject, state__in=ACTIVE).exists()


def background_jobs_waiting() -> bool:
    """Whether a background job waits for a worker, without those that were postponed."""
    queued = Job.unscoped.filter(version__isnull=True, state=JobState.QUEUED)
    return queued.filter(dispatched_at__lte=timezone.now()).exists()


def background_jobs_expire() -> int:
    """Delete background jobs that ended more than ``BACKGROUND_RETENTION`` ago. Returns how many rows."""
    ended = Job.unscoped.filter(version__isnull=True, state__in=TERMINAL)
    return ended.filter(finished_at__lte=timezone.now() - BACKGROUND_RETENTION).delete()[0]
