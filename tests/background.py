"""Runs background jobs in the test's own process and transaction."""

from datetime import timedelta
from typing import Any, Self
from unittest.mock import patch
from uuid import UUID

from django.db.models import F
from django.utils import timezone

from inference.batches import runner as batch_runner
from versiontree.jobs.models import Job, JobState
from versiontree.jobs.services.lease_recovery import leases_recover
from versiontree.jobs.services.lifecycle import job_claim
from workers.runner import run_background_job


class FixedLease:
    """A lease without the thread that renews it: that would not see rows of the test's transaction."""

    lost = False
    cancel_requested = False

    def __init__(self, **_: Any) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def update(self, *_: object) -> None: ...

    def flush(self) -> None: ...


class CancelledLease(FixedLease):
    """A lease whose job is cancelled when the work has begun to report its steps."""

    updates = 0

    def update(self, *_: object) -> None:
        self.updates += 1
        self.cancel_requested = self.updates > 1  # the first one is the start of a stage


class LostLease(FixedLease):
    """A lease that is lost when the work has begun to report its steps."""

    updates = 0

    def update(self, *_: object) -> None:
        self.updates += 1
        self.lost = self.updates > 1


def run_background(job_id: UUID, lease_type: type[FixedLease] = FixedLease) -> None:
    """Run a background job as a worker that got its message."""
    run_background_job(job_id, lease_type=lease_type)  # type: ignore[arg-type]


def run_background_of(subject: object, lease_type: type[FixedLease] = FixedLease) -> None:
    """Run the queued background job of a row, by the row's id."""
    run_background(background_job_of(subject).pk, lease_type)


def run_batch(batch_id: object, *, time_slice_s: float = batch_runner.TIME_SLICE_S) -> None:
    """Run the queued job of a batch for a time slice."""
    with patch.object(batch_runner, "TIME_SLICE_S", time_slice_s):
        run_background_of(batch_id)


def lose_the_last_worker(subject: object) -> None:
    """The worker of the last attempt of a row's background job claims the job and dies."""
    job = background_job_of(subject)
    job_claim(job_id=job.pk, worker="lost", lease_s=30)
    expired = timezone.now() - timedelta(seconds=1)
    Job.unscoped.filter(pk=job.pk).update(lease_expires_at=expired, attempt=F("max_attempts"))
    leases_recover()


def background_job_of(subject: object) -> Job:
    """The queued background job of a row."""
    return Job.unscoped.get(subject=str(subject), version=None, state=JobState.QUEUED)
