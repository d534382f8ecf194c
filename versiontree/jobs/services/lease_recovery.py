"""Recover jobs whose worker died, and queued jobs whose message was lost."""

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from tenants.base.errors import ErrorCode
from versiontree.artifact_store import ArtifactStore
from versiontree.jobs.hooks import job_owner
from versiontree.jobs.models import Job, JobEvent, JobState
from versiontree.jobs.services.transitions import chain_break, job_dispatch, job_transition

log = logging.getLogger(__name__)

REDISPATCH_AFTER_S: Final = 10.0
MAX_REDISPATCH_INTERVAL_S: Final = 300.0
WORKSPACE_MAX_AGE_S: Final = 24 * 3600.0


@dataclass(slots=True)
class RecoveryReport:
    """How many jobs a run requeued, failed, cancelled and redispatched."""

    requeued: int = 0
    failed: int = 0
    cancelled: int = 0
    redispatched: int = 0


def leases_recover() -> RecoveryReport:
    """End expired leases, send new messages for queued jobs, and remove stale workspaces."""
    report = RecoveryReport()
    now = timezone.now()
    expired = Job.unscoped.filter(state=JobState.RUNNING, lease_expires_at__lt=now)
    for job in expired.only("pk", "version_id"):
        _recover_expired(job.pk, job.version_id, now, report)
    undispatched = Job.unscoped.filter(
        state=JobState.QUEUED, dispatched_at__lt=now - timedelta(seconds=REDISPATCH_AFTER_S)
    )
    for job in undispatched.only("pk", "kind", "priority", "dispatches", "dispatched_at"):
        report.redispatched += _redispatch(job, now)
    ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT)).sweep(older_than_s=WORKSPACE_MAX_AGE_S)
    return report


def job_lease_holder(*, job_id: UUID) -> str | None:
    """The worker that holds the job's lease, None if it is not running."""
    running = Job.unscoped.filter(pk=job_id, state=JobState.RUNNING)
    return running.values_list("worker", flat=True).first()


def job_ran_out_of_memory(*, job_id: UUID) -> bool:
    """Whether an earlier attempt ran out of memory, so that the next starts with a smaller batch."""
    return JobEvent.unscoped.filter(
        job=job_id, kind=JobState.QUEUED, data__code=ErrorCode.OUT_OF_MEMORY
    ).exists()


@transaction.atomic
def job_end_out_of_memory(*, job_id: UUID, worker: str, again: bool, message: str) -> None:
    """End the attempt of a worker process that was killed because it ran out of memory.

    The job is queued again at once. If it ran out of memory ``again``, or no attempt is left, it fails with
    ``message``. A no-op if the lease was lost.
    """
    job_owner().lock(version_id=Job.unscoped.values_list("version_id", flat=True).get(pk=job_id))
    job = Job.unscoped.get(pk=job_id)
    if again or job.attempt >= job.max_attempts:
        end = _Outcome(JobState.FAILED, message, ErrorCode.OUT_OF_MEMORY)
    else:
        end = _Outcome(
            JobState.QUEUED, "The machine ran out of memory. The job continues with half the batch size."
        )
    _end_attempt(job, Q(worker=worker), end, code=ErrorCode.OUT_OF_MEMORY)


@transaction.atomic
def _recover_expired(job_id: UUID, version_id: int | None, now: datetime, report: RecoveryReport) -> None:
    job_owner().lock(version_id=version_id)
    job = Job.unscoped.get(pk=job_id)
    if job.attempt >= job.max_attempts:
        message = f"The worker was lost {job.attempt} times in a row, so the job failed."
        end = _Outcome(JobState.FAILED, message, ErrorCode.JOB_CRASHED)
    else:
        end = _Outcome(JobState.QUEUED, "The worker stopped responding. The job restarts.")
    to = _end_attempt(job, Q(lease_expires_at__lt=now, worker=job.worker), end)
    report.requeued += to == JobState.QUEUED
    report.cancelled += to == JobState.CANCELLED
    report.failed += to == JobState.FAILED


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The new state of a job whose attempt ended with its process."""

    to: JobState
    message: str
    code: ErrorCode | None = None


def _end_attempt(job: Job, where: Q, end: _Outcome, **data: Any) -> JobState | None:
    """End a running attempt, as cancelled if that was requested. None if no row matches ``where``."""
    if job.cancel_requested_at is not None:
        end = _Outcome(JobState.CANCELLED, "Canceled.", ErrorCode.JOB_CANCELLED)
    changes = {"error_code": end.code, "error_message": end.message} if end.code else {}
    if not job_transition(
        job_id=job.pk,
        from_states=[JobState.RUNNING],
        to=end.to,
        where=where,
        message=end.message,
        data={"worker": job.worker, "attempt": job.attempt, **data},
        **changes,
    ):
        return None
    log.warning("Job %s: worker %s was lost; now %s", job.pk, job.worker, end.to)
    if end.to == JobState.QUEUED:
        job_dispatch(job_id=job.pk, kind=job.kind, priority=job.priority)
    else:
        chain_break(job=job, reason=f"{job.get_kind_display()} {end.to.label.lower()}.")
    return end.to


@transaction.atomic
def _redispatch(job: Job, now: datetime) -> bool:
    """Send a queued job's message again. The interval doubles each time, up to five minutes."""
    interval = min(REDISPATCH_AFTER_S * 2 ** min(job.dispatches, 10), MAX_REDISPATCH_INTERVAL_S)
    if job.dispatched_at is None or (now - job.dispatched_at).total_seconds() < interval:
        return False
    row = Job.unscoped.filter(pk=job.pk, state=JobState.QUEUED, dispatched_at=job.dispatched_at)
    if not row.update(dispatched_at=now, dispatches=F("dispatches") + 1):
        return False
    job_dispatch(job_id=job.pk, kind=job.kind, priority=job.priority)
    return True
