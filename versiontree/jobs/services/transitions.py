"""Change the state of jobs by compare-and-set, with an event, and of the jobs that depend on them."""

from collections.abc import Iterable
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from tenants.base.background_jobs import BackgroundKind, background_work
from tenants.base.dispatch import LONG_QUEUE, dispatch
from tenants.base.errors import ErrorCode, HmiError
from versiontree.jobs.hooks import job_owner
from versiontree.jobs.models import (
    BACKGROUND_KINDS,
    LEGAL_TRANSITIONS,
    TERMINAL,
    Job,
    JobEvent,
    JobKind,
    JobState,
)

_CLEARED_ERROR = {"error_code": "", "error_message": "", "traceback": ""}
_CLEARED_PROGRESS = {"stage": "", "progress": 0.0, "eta_seconds": None, "metrics": {}}


def job_transition(
    *,
    job_id: UUID | str,
    from_states: Iterable[JobState],
    to: JobState,
    where: Q | None = None,
    message: str = "",
    data: dict[str, Any] | None = None,
    **changes: Any,
) -> bool:
    """Move a job from one of these states to another and add an event. False if it was in none of them.

    ``where`` is a further condition, ``changes`` are further columns. Call it inside a transaction. Raises
    ``ValueError`` for a transition that ``LEGAL_TRANSITIONS`` does not list.
    """
    states = list(from_states)
    if any(to not in LEGAL_TRANSITIONS[state] for state in states):
        raise ValueError(f"illegal job transition {states} -> {to}")
    rows = Job.unscoped.filter(where or Q(), pk=job_id, state__in=states)
    if not rows.update(state=to, **(_state_columns(to) | changes)):
        return False
    JobEvent.unscoped.create(job_id=job_id, kind=to.value, message=message, data=data or {})
    job_owner().notify(job_id=job_id, state=to)
    return True


def _state_columns(state: JobState) -> dict[str, Any]:
    now = timezone.now()
    if state == JobState.RUNNING:
        return {"started_at": now, "finished_at": None, **_CLEARED_PROGRESS}
    if state in TERMINAL:
        return {"lease_expires_at": None, "finished_at": now, "eta_seconds": None}
    changes: dict[str, Any] = {
        "lease_expires_at": None,
        "worker": "",
        "cancel_requested_at": None,
        "finished_at": None,
        **_CLEARED_PROGRESS,
        **_CLEARED_ERROR,
    }
    if state == JobState.QUEUED:
        changes |= {"queued_at": now, "dispatched_at": now, "dispatches": 0}
    return changes


def chain_advance(*, job: Job) -> None:
    """After a success: queue the jobs that waited for this one. After the last job, finish the version."""
    if job.version_id is None:
        return
    for follower in Job.unscoped.filter(after=job, state=JobState.WAITING):
        if job_transition(job_id=follower.pk, from_states=[JobState.WAITING], to=JobState.QUEUED):
            job_dispatch(job_id=follower.pk, kind=follower.kind, priority=follower.priority)
    of_version = Job.unscoped.filter(version=job.version_id)
    if not of_version.exclude(state=JobState.SUCCEEDED).exists():
        metrics = dict(of_version.values_list("kind", "metrics"))
        job_owner().finish(version_id=job.version_id, metrics=metrics)


def chain_break(*, job: Job, reason: str) -> None:
    """After a failure or cancellation: cancel the jobs that waited for this one, and fail the version.

    For a background job: call the ``on_failure`` of its kind.
    """
    if job.version_id is None:
        error = Job.unscoped.values_list("error_code", "error_message").get(pk=job.pk)
        background_work[BackgroundKind(job.kind)].on_failure(job.subject, *error)
        return
    for follower in Job.unscoped.filter(after=job):
        cancelled = job_transition(
            job_id=follower.pk,
            from_states=[JobState.WAITING],
            to=JobState.CANCELLED,
            message=reason,
            error_code=ErrorCode.JOB_CANCELLED,
            error_message=reason,
        )
        if cancelled:
            chain_break(job=follower, reason=reason)
    job_owner().fail(version_id=job.version_id)


def chain_reset(*, job: Job) -> None:
    """After a retry: have the jobs after this one wait again, and reopen the version."""
    assert job.version_id is not None, "only jobs of versions are retried"
    for follower in Job.unscoped.filter(after=job):
        if job_transition(
            job_id=follower.pk, from_states=[JobState.CANCELLED], to=JobState.WAITING, attempt=0
        ):
            chain_reset(job=follower)
    job_owner().reopen(version_id=job.version_id)


RUN_JOB_TASK: Final = "workers.run_job"
RUN_BACKGROUND_JOB_TASK: Final = "workers.run_background_job"


def job_dispatch(*, job_id: UUID, kind: str, priority: int) -> None:
    """Send the job's id to the queue of its kind once the transaction is committed."""
    if kind in BACKGROUND_KINDS:
        limit = background_work[BackgroundKind(kind)].time_limit_s
        send = partial(dispatch, RUN_BACKGROUND_JOB_TASK, str(job_id), queue=LONG_QUEUE, time_limit_s=limit)
    else:
        send = partial(dispatch, RUN_JOB_TASK, str(job_id), queue=JobKind(kind).queue)
    transaction.on_commit(partial(send, priority=priority))


WAITING_FOR_MACHINE: Final = "waiting for another job on this machine"


def job_set_waiting_stage(*, job_id: UUID) -> bool:
    """Set the stage of a queued job to ``WAITING_FOR_MACHINE``. False if it is no longer queued."""
    queued = Job.unscoped.filter(pk=job_id, state=JobState.QUEUED)
    return bool(queued.update(stage=WAITING_FOR_MACHINE))


class LeaseLost(HmiError):
    """The worker no longer holds the lease: it expired, or the job was ended or requeued."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.LEASE_LOST, "The worker lost its lease on this job.")
