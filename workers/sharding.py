"""Processes the shards of a job: in the worker that runs the job, and in those that help it."""

import logging
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from uuid import UUID, uuid4

from django.db import DatabaseError, InterfaceError, connection

from inference.periodic_thread import PeriodicThread
from tenants.base.child_process import WorkerStopping, is_stopping
from tenants.base.errors import ErrorCode, HmiError
from versiontree.jobs.models import JobShard, ShardState
from versiontree.jobs.services.shards import (
    shard_claim,
    shard_complete,
    shard_fail,
    shard_release,
    shard_renew,
    shard_reset,
    shards_dispatch,
    shards_plan,
    shards_retry,
)
from versiontree.jobs.services.transitions import LeaseLost
from workers.failures import failure_from
from workers.training.disk import read_seal, seal_digest
from workers.training.progress import Cancelled, Reporter

log = logging.getLogger(__name__)

LEASE_S: Final = 30.0
RENEW_INTERVAL_S: Final = 5.0
POLL_INTERVAL_S: Final = 0.5
DISPATCH_INTERVAL_S: Final = 60.0
MAX_REDISPATCHED: Final = 2
"""Few, because where every worker is busy the messages pile up in the queue."""
RETRYABLE_CODES: Final = frozenset({ErrorCode.JOB_CRASHED, ErrorCode.OUT_OF_MEMORY})
"""Errors that may not occur on another machine or at another time."""

ProgressCallback = Callable[[int], None]
"""Receives how much of a shard is done; raises to stop."""
ShardWork = Callable[[JobShard, Path, ProgressCallback], Mapping[str, Any]]
"""Processes the input range of a shard and writes a sealed folder at the path."""


class ShardLease:
    """Renews a shard's lease from a thread with its own database connection."""

    def __init__(self, shard: JobShard, worker: str) -> None:
        self.lost = False
        self._shard, self._worker = shard, worker
        self._renewed_at = time.monotonic()
        self._thread = PeriodicThread(
            f"shard-{shard.pk}", self._renew, interval_s=RENEW_INTERVAL_S, at_end=self._close_connection
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.stop()

    def _close_connection(self) -> None:
        connection.close()  # looked up here, in the thread, because connections are per thread

    def _renew(self) -> bool:
        started = time.monotonic()
        try:
            shard_renew(shard=self._shard, worker=self._worker, lease_s=LEASE_S)
            self._renewed_at = started
        except LeaseLost:
            self.lost = True
        except (DatabaseError, InterfaceError) as error:
            log.warning("%s could not be renewed: %s", self._shard, error)
            connection.close()
            self.lost = time.monotonic() - self._renewed_at > LEASE_S
        return not self.lost


def shard_folder(staging: Path, shard: JobShard) -> Path:
    """The folder of a shard's files."""
    return staging / f"{shard.stage}-{shard.number}"


def worker_name() -> str:
    """A unique name for a claim by this process."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:12]}"


def process_shards(
    job_id: UUID, staging: Path, work: ShardWork, on_progress: ProgressCallback | None = None
) -> int:
    """Process shards of a job until none is left to claim; returns how many.

    on_progress: receives the progress of the current shard, and may raise to stop.
    """
    count = 0
    while True:
        worker = worker_name()
        shard = shard_claim(job_id=job_id, worker=worker, lease_s=LEASE_S)
        if shard is None:
            return count
        _process(shard, worker, shard_folder(staging, shard), work, on_progress)
        count += 1


def process_stage(
    *,
    job_id: UUID,
    stage: str,
    ranges: Sequence[tuple[int, int]],
    staging: Path,
    work: ShardWork,
    reporter: Reporter,
) -> list[Path]:
    """Process a whole stage together with helping workers; returns the sealed folders in order of the ranges.

    Progress is reported in the unit of the ranges. Raises the error of a failed shard.
    """
    reporter.start_stage(stage_title(stage), sum(last - first for first, last in ranges))
    shards_retry(job_id=job_id)
    shards = shards_plan(job_id=job_id, stage=stage, ranges=ranges)
    for shard in _damaged([one for one in shards if one.state == ShardState.DONE], staging, reporter):
        shard_reset(shard=shard)
    shards_dispatch(job_id=job_id, count=_unfinished(job_id, stage) - 1)

    completed, helpers = _CompletedUnits(job_id, stage), _HelpRequests(job_id, stage)

    def on_progress(done: int) -> None:
        reporter.raise_if_cancelled()
        helpers.repeat()
        reporter.report(completed() + done)

    while True:
        process_shards(job_id, staging, work, on_progress)
        failed = JobShard.objects.filter(job=job_id, stage=stage, state=ShardState.FAILED).first()
        if failed is not None:
            raise HmiError(ErrorCode(failed.error_code), failed.error_message)
        if _unfinished(job_id, stage):
            on_progress(0)
            time.sleep(POLL_INTERVAL_S)
            continue
        damaged = _damaged(_shards_of(job_id, stage), staging, reporter)
        if not damaged:
            reporter.report(completed.now())
            return [shard_folder(staging, shard) for shard in shards]
        for shard in damaged:
            log.warning("The files of %s are damaged; it is processed again", shard)
            shard_reset(shard=shard)


def stage_title(stage: str) -> str:
    """The display name of a stage of shards."""
    return {"count": "count fragments", "vectors": "compute fragments"}[stage]


def _process(
    shard: JobShard,
    worker: str,
    folder: Path,
    work: ShardWork,
    on_progress: ProgressCallback | None,
) -> None:
    with ShardLease(shard, worker) as lease:

        def check_and_report(done: int) -> None:
            if lease.lost:
                raise LeaseLost
            if is_stopping():
                raise WorkerStopping
            if on_progress is not None:
                on_progress(done)

        try:
            report = work(shard, folder, check_and_report)
            shard_complete(shard=shard, worker=worker, result={"seal": seal_digest(folder), **report})
        except (Cancelled, WorkerStopping):
            shard_release(shard=shard, worker=worker)
            raise
        except LeaseLost:
            # Another worker has this shard, or the job ended; the next claim tells which.
            shard_release(shard=shard, worker=worker)
            if on_progress is not None:
                on_progress(0)
        except (DatabaseError, InterfaceError):
            raise
        except Exception as error:
            failure = failure_from(error)
            log.warning("%s failed", shard, exc_info=error)
            final = failure.code not in RETRYABLE_CODES
            shard_fail(shard=shard, worker=worker, code=failure.code, message=failure.message, final=final)


def _damaged(shards: Sequence[JobShard], staging: Path, reporter: Reporter) -> list[JobShard]:
    """The shards whose files are damaged. Reading them takes time, so it checks for cancellation."""
    found = []
    for shard in shards:
        reporter.raise_if_cancelled()
        if not _is_intact(shard, staging):
            found.append(shard)
    return found


def _is_intact(shard: JobShard, staging: Path) -> bool:
    folder = shard_folder(staging, shard)
    return read_seal(folder) is not None and seal_digest(folder) == shard.result.get("seal")


def _shards_of(job_id: UUID, stage: str) -> list[JobShard]:
    return list(JobShard.objects.filter(job=job_id, stage=stage).order_by("number"))


def _unfinished(job_id: UUID, stage: str) -> int:
    return JobShard.objects.filter(job=job_id, stage=stage).exclude(state=ShardState.DONE).count()


class _HelpRequests:
    """Repeats the request for help while shards are waiting, for workers that were busy before."""

    def __init__(self, job_id: UUID, stage: str) -> None:
        self._job_id = job_id
        self._waiting = JobShard.objects.filter(job=job_id, stage=stage, state=ShardState.WAITING)
        self._sent_at = time.monotonic()

    def repeat(self) -> None:
        """Ask other workers for help, at most once a minute."""
        if time.monotonic() - self._sent_at < DISPATCH_INTERVAL_S:
            return
        self._sent_at = time.monotonic()
        shards_dispatch(job_id=self._job_id, count=min(self._waiting.count(), MAX_REDISPATCHED))


class _CompletedUnits:
    """How much of a stage all workers have completed; queries the database at most once a second."""

    def __init__(self, job_id: UUID, stage: str) -> None:
        self._rows = JobShard.objects.filter(job=job_id, stage=stage, state=ShardState.DONE)
        self._known, self._read_at = 0, -1.0

    def __call__(self) -> int:
        if self._read_at < 0 or time.monotonic() - self._read_at >= 1.0:
            return self.now()
        return self._known

    def now(self) -> int:
        self._known = sum(last - first for first, last in self._rows.values_list("input_range", flat=True))
        self._read_at = time.monotonic()
        return self._known
