"""Control of jobs by users: cancel, retry, requeue, change the priority.

The broker has one FIFO list for each priority (``tenants.base.dispatch``). A job whose priority changes is
queued again, behind those that already have this priority.
"""

from typing import Final
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from tenants.audit.details import change
from tenants.audit.services import Actor, audit_record
from tenants.base.errors import ErrorCode, HmiError
from versiontree.jobs.hooks import job_owner
from versiontree.jobs.models import Job, JobEvent, JobState
from versiontree.jobs.services.transitions import chain_break, chain_reset, job_dispatch, job_transition

PRIORITIES: Final = {"high": 0, "normal": 3, "low": 6, "lowest": 9}
"""The priorities that users can set, one for each of the broker's lists."""


@transaction.atomic
def job_prioritise(*, job: Job, priority: int, actor: Actor) -> Job:
    """Change the priority of a job that has not started to one of ``PRIORITIES``.

    Raises ``invalid_field`` (not one of them), ``invalid_transition`` (the job runs or has ended).
    """
    if priority not in PRIORITIES.values():
        known = ", ".join(f"{number} ({name})" for name, number in PRIORITIES.items())
        raise HmiError(
            ErrorCode.INVALID_FIELD, f"{priority} is not a priority. Use one of: {known}.", param="priority"
        )
    job_owner().lock(version_id=job.version_id)
    now = timezone.now()
    row = Job.unscoped.filter(pk=job.pk)
    queued = row.filter(state=JobState.QUEUED).update(priority=priority, queued_at=now, dispatched_at=now)
    if not queued and not row.filter(state=JobState.WAITING).update(priority=priority):
        raise _invalid_transition(job, "given another priority")
    message = f"{actor or 'The system'} changed the priority to {priority}."
    JobEvent.unscoped.create(job=job, kind="priority", message=message, data={"priority": priority})
    if queued:
        job_dispatch(job_id=job.pk, kind=job.kind, priority=priority)
    detail = {"priority": change(job.priority, priority)}
    audit_record(verb="job.prioritise", subject=str(job.pk), tenant=job.tenant, actor=actor, detail=detail)
    return Job.unscoped.get(pk=job.pk)


@transaction.atomic
def job_requeue(*, job: Job, actor: Actor) -> Job:
    """Queue a job again. A running job is taken from its worker, whose next heartbeat fails. A failed or
    cancelled job is retried. For a queued job a new message is sent.

    Raises ``invalid_transition`` for a job that waits for another, succeeded or is being cancelled, and what
    ``job_retry`` raises.
    """
    job_owner().lock(version_id=job.version_id)
    state = Job.unscoped.get(pk=job.pk).state
    if state in (JobState.FAILED, JobState.CANCELLED):
        return job_retry(job=job, actor=actor)
    if state == JobState.RUNNING:
        _requeue_running(job, actor)
    elif state != JobState.QUEUED:
        raise _invalid_transition(job, "requeued")
    job_dispatch(job_id=job.pk, kind=job.kind, priority=job.priority)
    audit_record(verb="job.requeue", subject=str(job.pk), tenant=job.tenant, actor=actor)
    return Job.unscoped.get(pk=job.pk)


def message_is_stale(*, job_id: UUID, priority: int | None) -> bool:
    """Whether the job's priority changed after this message was sent, so that a newer message exists.

    ``priority`` is that of the message, None if the message has none.
    """
    if priority is None:
        return False
    return Job.unscoped.filter(pk=job_id, state=JobState.QUEUED).exclude(priority=priority).exists()


def _requeue_running(job: Job, actor: Actor) -> None:
    taken = job_transition(
        job_id=job.pk,
        from_states=[JobState.RUNNING],
        to=JobState.QUEUED,
        where=Q(cancel_requested_at=None),
        message=f"Requeued by {actor or 'the system'}.",
        attempt=F("attempt") - 1,
    )
    if not taken:
        raise _invalid_transition(job, "requeued while it is being canceled")


def _invalid_transition(job: Job, verb: str) -> HmiError:
    state = Job.unscoped.get(pk=job.pk).get_state_display().lower()
    return HmiError(
        ErrorCode.INVALID_TRANSITION, f"A job that is {state} cannot be {verb}.", details={"state": state}
    )


RETRYABLE: Final = (JobState.FAILED, JobState.CANCELLED)


@transaction.atomic
def job_cancel(*, job: Job, actor: Actor) -> Job:
    """Cancel a job that has not started, or ask a running one to stop.

    Raises ``invalid_transition`` if it has ended.
    """
    job_owner().lock(version_id=job.version_id)
    if job_transition(
        job_id=job.pk,
        from_states=[JobState.WAITING, JobState.QUEUED],
        to=JobState.CANCELLED,
        message=f"Canceled by {actor or 'the system'}.",
        error_code=ErrorCode.JOB_CANCELLED,
        error_message="Canceled.",
    ):
        chain_break(job=job, reason=f"{job.get_kind_display()} was canceled.")
    else:
        _request_cancel(job, actor)
    audit_record(verb="job.cancel", subject=str(job.pk), tenant=job.tenant, actor=actor)
    return Job.unscoped.get(pk=job.pk)


@transaction.atomic
def job_retry(*, job: Job, actor: Actor) -> Job:
    """Run a failed or cancelled job again, with all its attempts, and the jobs that were cancelled with it.

    Raises ``invalid_transition`` (it has not ended, it succeeded, the job before it must be retried first, or
    this kind of work no longer exists), ``not_found`` (its model was deleted), ``quota_exceeded``.
    """
    retryable = Job.unscoped.filter(version=job.version_id, state__in=RETRYABLE)
    job_owner().check_retry(job=job, jobs=retryable.count())
    job_owner().lock(version_id=job.version_id)
    before = Job.unscoped.get(pk=job.after_id) if job.after_id else None
    if before is not None and before.state in RETRYABLE:
        raise HmiError(
            ErrorCode.INVALID_TRANSITION,
            f"Retry the job before it first: {before.get_kind_display().lower()}.",
            details={"job": str(before.pk)},
        )
    if before is None or before.state == JobState.SUCCEEDED:
        moved = job_transition(
            job_id=job.pk,
            from_states=RETRYABLE,
            to=JobState.QUEUED,
            message=f"Retried by {actor or 'the system'}.",
            attempt=0,
        )
        job_dispatch(job_id=job.pk, kind=job.kind, priority=job.priority)
    else:
        moved = job_transition(
            job_id=job.pk, from_states=[JobState.CANCELLED], to=JobState.WAITING, attempt=0
        )
    if not moved:
        raise _invalid_transition(job, "retried")
    chain_reset(job=job)
    audit_record(verb="job.retry", subject=str(job.pk), tenant=job.tenant, actor=actor)
    return Job.unscoped.get(pk=job.pk)


def _request_cancel(job: Job, actor: Actor) -> None:
    running = Job.unscoped.filter(pk=job.pk, state=JobState.RUNNING)
    if running.filter(cancel_requested_at=None).update(cancel_requested_at=timezone.now()):
        message = f"{actor or 'The system'} requested cancellation."
        JobEvent.unscoped.create(job=job, kind="cancel_requested", message=message)
    elif not running.exists():
        raise _invalid_transition(job, "canceled")
