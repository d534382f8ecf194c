"""What workers do with jobs: claim, heartbeat, succeed, fail, release.

Users cancel and retry jobs in ``control``; expired leases are recovered in ``lease_recovery``. Every change
of state is a compare-and-set (``transitions``), so duplicate messages and lost workers do no harm.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from tenants.base.errors import ErrorCode
from versiontree.artifact_store import ArtifactStore, StoredArtifact
from versiontree.jobs.hooks import job_owner
from versiontree.jobs.models import Job, JobEvent, JobState
from versiontree.jobs.services.lease_recovery import REDISPATCH_AFTER_S
from versiontree.jobs.services.transitions import (
    LeaseLost,
    chain_advance,
    chain_break,
    job_dispatch,
    job_transition,
)


@transaction.atomic
def job_claim(*, job_id: UUID | str, worker: str, lease_s: float) -> Job | None:
    """Claim a queued job for ``lease_s`` seconds. None if it is gone or another worker was first.

    ``worker`` must be unique to the claim (host, process and a random part): it identifies the lease holder.
    """
    now = timezone.now()
    claimed = job_transition(
        job_id=job_id,
        from_states=[JobState.QUEUED],
        to=JobState.RUNNING,
        data={"worker": worker},
        worker=worker,
        lease_expires_at=now + timedelta(seconds=lease_s),
        heartbeat_at=now,
        attempt=F("attempt") + 1,
    )
    return Job.unscoped.select_related("version__root").get(pk=job_id) if claimed else None


def job_heartbeat(
    *,
    job_id: UUID | str,
    worker: str,
    lease_s: float,
    progress: float | None = None,
    stage: str | None = None,
    metrics: Mapping[str, Any] | None = None,
    eta: float | None = None,
) -> bool:
    """Renew the lease and store the progress. Returns whether to cancel the job. Raises ``LeaseLost``."""
    now = timezone.now()
    changes: dict[str, Any] = {
        "heartbeat_at": now,
        "lease_expires_at": now + timedelta(seconds=lease_s),
        "eta_seconds": eta,
    }
    if progress is not None:
        changes["progress"] = min(max(progress, 0.0), 1.0)
    if stage is not None:
        changes["stage"] = stage[:100]
    if metrics is not None:
        changes["metrics"] = dict(metrics)
    if not _held(job_id, worker).update(**changes):
        raise LeaseLost
    return _held(job_id, worker).filter(cancel_requested_at__isnull=False).exists()


def job_event(
    *, job_id: UUID | str, kind: str, message: str = "", data: Mapping[str, Any] | None = None
) -> JobEvent:
    """Add an event to the job's history."""
    return JobEvent.unscoped.create(job_id=job_id, kind=kind[:40], message=message, data=dict(data or {}))


def job_succeed(
    *,
    job_id: UUID | str,
    worker: str,
    metrics: Mapping[str, Any],
    artifacts: Sequence[tuple[str, StoredArtifact]],
) -> Job:
    """Mark a job as succeeded, attach its artifacts, and queue the next job or finish the version.

    If a cancellation was requested, the job is cancelled instead. Raises ``LeaseLost``, and
    ``ArtifactDamaged`` if an artifact does not match its digest.
    """
    store = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT))
    for _, stored in artifacts:
        store.verify(stored.kind, stored.digest)
    with transaction.atomic():
        job = _held(job_id, worker).first()
        if job is None:
            raise LeaseLost
        job_owner().lock_to_finish(version_id=job.version_id)
        if job_transition(
            job_id=job_id,
            from_states=[JobState.RUNNING],
            to=JobState.SUCCEEDED,
            where=Q(worker=worker, cancel_requested_at=None),
            data={"metrics": dict(metrics)},
            progress=1.0,
            metrics=dict(metrics),
        ):
            if artifacts:
                job_owner().attach(job=job, artifacts=artifacts)
            chain_advance(job=job)
        else:
            _end_cancelled(job, worker)
    return Job.unscoped.get(pk=job_id)


@transaction.atomic
def job_fail(*, job_id: UUID | str, worker: str, code: str, message: str, traceback: str = "") -> Job:
    """Mark a job and its version as failed, and cancel the jobs after it. Raises ``LeaseLost``."""
    job = _held(job_id, worker).first()
    if job is None:
        raise LeaseLost
    job_owner().lock(version_id=job.version_id)
    failed = job_transition(
        job_id=job_id,
        from_states=[JobState.RUNNING],
        to=JobState.FAILED,
        where=Q(worker=worker),
        message=message,
        data={"code": str(code)},
        error_code=str(code),
        error_message=message,
        traceback=traceback,
    )
    if not failed:
        raise LeaseLost
    chain_break(job=job, reason=f"{job.get_kind_display()} failed.")
    return Job.unscoped.get(pk=job_id)


@transaction.atomic
def job_confirm_cancel(*, job_id: UUID | str, worker: str) -> Job:
    """Mark a job as cancelled once its worker has stopped. Raises ``LeaseLost``."""
    job = _held(job_id, worker).first()
    if job is None:
        raise LeaseLost
    job_owner().lock(version_id=job.version_id)
    _end_cancelled(job, worker)
    return Job.unscoped.get(pk=job_id)


@transaction.atomic
def job_postpone(*, job_id: UUID | str, worker: str, after_s: float) -> None:
    """Queue a job again that cannot be done yet. It gets its next message at once if ``after_s`` is 0, else
    from ``leases_recover`` after that. It has all its attempts again, and no event: it may be postponed for
    days. Raises ``LeaseLost``."""
    wait_s = after_s - REDISPATCH_AFTER_S if after_s else 0.0
    postponed = job_transition(
        job_id=job_id,
        from_states=[JobState.RUNNING],
        to=JobState.QUEUED,
        where=Q(worker=worker, cancel_requested_at=None),
        data={"worker": worker},
        attempt=0,
        dispatched_at=timezone.now() + timedelta(seconds=wait_s),
    )
    if not postponed:
        job_confirm_cancel(job_id=job_id, worker=worker)
        return
    JobEvent.unscoped.filter(job_id=job_id, data__worker=worker).delete()  # of its claim, and this one
    if not after_s:
        job = Job.unscoped.get(pk=job_id)
        job_dispatch(job_id=job.pk, kind=job.kind, priority=job.priority)


@transaction.atomic
def job_release(*, job_id: UUID | str, worker: str) -> None:
    """Queue an unfinished job again because its worker shuts down. Costs no attempt."""
    released = job_transition(
        job_id=job_id,
        from_states=[JobState.RUNNING],
        to=JobState.QUEUED,
        where=Q(worker=worker, cancel_requested_at=None),
        message="The worker is shutting down. The job restarts on another worker.",
        attempt=F("attempt") - 1,
    )
    if released:
        job = Job.unscoped.get(pk=job_id)
        job_dispatch(job_id=job.pk, kind=job.kind, priority=job.priority)
        return
    job_confirm_cancel(job_id=job_id, worker=worker)


def _held(job_id: UUID | str, worker: str) -> QuerySet[Job]:
    return Job.unscoped.filter(pk=job_id, state=JobState.RUNNING, worker=worker)


def _end_cancelled(job: Job, worker: str) -> None:
    cancelled = job_transition(
        job_id=job.pk,
        from_states=[JobState.RUNNING],
        to=JobState.CANCELLED,
        where=Q(worker=worker),
        message="The worker stopped the job.",
        error_code=ErrorCode.JOB_CANCELLED,
        error_message="Canceled.",
    )
    if not cancelled:
        raise LeaseLost
    chain_break(job=job, reason=f"{job.get_kind_display()} was canceled.")
