"""What people ask of jobs: stop, and try again."""

from typing import Final

from django.db import transaction
from django.utils import timezone

from tenants.audit.services import Actor, audit_record
from tenants.base.errors import ErrorCode, HmiError
from versiontree.jobs.hooks import job_owner
from versiontree.jobs.models import Job, JobEvent
from versiontree.jobs.models.job import JobState
from versiontree.jobs.services.chain import chain_break, chain_reset
from versiontree.jobs.services.dispatch import job_dispatch
from versiontree.jobs.services.transitions import job_move

RETRIED: Final = (JobState.FAILED, JobState.CANCELLED)


@transaction.atomic
def job_cancel(*, job: Job, actor: Actor) -> Job:
    """Cancel a job that has not begun; ask a running one to stop. Ended already: ``invalid_transition``."""
    job_owner().lock(version_id=job.version_id)
    if job_move(
        job_id=job.pk,
        from_states=[JobState.WAITING, JobState.QUEUED],
        to=JobState.CANCELLED,
        message=f"Cancelled by {actor or 'the system'}.",
        error_code=ErrorCode.JOB_CANCELLED,
        error_message="Cancelled.",
    ):
        chain_break(job=job, reason=f"{job.get_kind_display()} was cancelled.")
    else:
        _ask_to_stop(job, actor)
    audit_record(verb="job.cancel", subject=str(job.pk), tenant=job.tenant, actor=actor)
    return Job.unscoped.get(pk=job.pk)


@transaction.atomic
def job_retry(*, job: Job, actor: Actor) -> Job:
    """Run a failed or cancelled job again, with all its attempts, and the jobs that were cancelled with it.

    Raises ``invalid_transition`` (it has not ended, it succeeded, or the job before it must be retried
    first), ``not_found`` (its model was deleted), ``quota_exceeded``.
    """
    ended_badly = Job.unscoped.filter(version=job.version_id, state__in=RETRIED)
    job_owner().check_retry(job=job, jobs=ended_badly.count())
    job_owner().lock(version_id=job.version_id)
    before = Job.unscoped.get(pk=job.after_id) if job.after_id else None
    if before is not None and before.state in RETRIED:
        raise HmiError(
            ErrorCode.INVALID_TRANSITION,
            f"Retry the job before it first: {before.get_kind_display().lower()}.",
            details={"job": str(before.pk)},
        )
    if before is None or before.state == JobState.SUCCEEDED:
        moved = job_move(
            job_id=job.pk,
            from_states=RETRIED,
            to=JobState.QUEUED,
            message=f"Retried by {actor or 'the system'}.",
            attempt=0,
        )
        job_dispatch(job_id=job.pk, priority=job.priority)
    else:
        moved = job_move(job_id=job.pk, from_states=[JobState.CANCELLED], to=JobState.WAITING, attempt=0)
    if not moved:
        raise _illegal(job, "retried")
    chain_reset(job=job)
    audit_record(verb="job.retry", subject=str(job.pk), tenant=job.tenant, actor=actor)
    return Job.unscoped.get(pk=job.pk)


def _ask_to_stop(job: Job, actor: Actor) -> None:
    running = Job.unscoped.filter(pk=job.pk, state=JobState.RUNNING)
    if running.filter(cancel_requested_at=None).update(cancel_requested_at=timezone.now()):
        message = f"{actor or 'The system'} wants it stopped."
        JobEvent.unscoped.create(job=job, kind="cancel_requested", message=message)
    elif not running.exists():
        raise _illegal(job, "cancelled")


def _illegal(job: Job, verb: str) -> HmiError:
    state = Job.unscoped.get(pk=job.pk).get_state_display().lower()
    return HmiError(
        ErrorCode.INVALID_TRANSITION, f"A job that is {state} cannot be {verb}.", details={"state": state}
    )
