"""Doing the shards of a job: as the worker that runs the job, or as one that helps it."""

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
from workers.failures import explain
from workers.training.disk import read_seal, seal_digest
from workers.training.progress import Cancelled, Reporter

log = logging.getLogger(__name__)

LEASE_S: Final = 30.0
RENEW_EVERY_S: Final = 5.0
LOOK_EVERY_S: Final = 0.5
ASK_EVERY_S: Final = 60.0
ASKED_AGAIN: Final = 2
"""A message waits in the queue where every worker is busy, so there must not be many of them."""
WORTH_ANOTHER_TRY: Final = frozenset({ErrorCode.JOB_CRASHED, ErrorCode.OUT_OF_MEMORY})
"""On another machine, or at another time, it may end well."""

Told = Callable[[int], None]
ShardTold = Callable[[JobShard | None, int], None]
ShardWork = Callable[[JobShard, Path, Told], Mapping[str, Any]]
"""Does the input range of a shard and leaves a sealed folder at the path."""


class ShardLease:
    """Holds one shard's lease from a thread, on a database connection of its own."""

    def __init__(self, shard: JobShard, worker: str) -> None:
        self.lost = False
        self._shard, self._worker = shard, worker
        self._renewed_at = time.monotonic()
        self._thread = PeriodicThread(
            f"shard-{shard.pk}", self._renew, interval_s=RENEW_EVERY_S, at_end=self._close_connection
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.stop()

    def _close_connection(self) -> None:
        connection.close()  # the thread's own: which connection that is, is looked up here

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
    """Where a shard leaves its files."""
    return staging / f"{shard.stage}-{shard.number}"


def worker_name() -> str:
    """This claim of this process on this machine."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:12]}"


def do_shards(job_id: UUID, staging: Path, work: ShardWork, told: ShardTold | None = None) -> int:
    """Take shards of a job until there is none to take; returns how many this process did.

    ``told`` hears how far the shard at hand is, and may raise to stop.
    """
    done = 0
    while True:
        worker = worker_name()
        shard = shard_claim(job_id=job_id, worker=worker, lease_s=LEASE_S)
        if shard is None:
            return done
        _do(shard, worker, shard_folder(staging, shard), work, told)
        done += 1


def share_stage(
    *,
    job_id: UUID,
    stage: str,
    ranges: Sequence[tuple[int, int]],
    staging: Path,
    work: ShardWork,
    reporter: Reporter,
) -> list[Path]:
    """Do a whole stage together with whoever helps; returns the sealed folders, in the order of the ranges.

    The reporter hears of the stage in the unit of the ranges. Raises what a shard failed with.
    """
    reporter.stage(stage_title(stage), sum(last - first for first, last in ranges))
    shards_retry(job_id=job_id)
    shards = shards_plan(job_id=job_id, stage=stage, ranges=ranges)
    for shard in _spoilt([one for one in shards if one.state == ShardState.DONE], staging, reporter):
        shard_reset(shard=shard)
    shards_dispatch(job_id=job_id, count=_open(job_id, stage) - 1)

    so_far, helpers = _Finished(job_id, stage), _Helpers(job_id, stage)

    def told(_: JobShard | None, at: int) -> None:
        reporter.check()
        helpers.ask_again()
        reporter.advance(so_far() + at)

    while True:
        do_shards(job_id, staging, work, told)
        failed = JobShard.objects.filter(job=job_id, stage=stage, state=ShardState.FAILED).first()
        if failed is not None:
            raise HmiError(ErrorCode(failed.error_code), failed.error_message)
        if _open(job_id, stage):
            told(None, 0)
            time.sleep(LOOK_EVERY_S)
            continue
        spoilt = _spoilt(_of(job_id, stage), staging, reporter)
        if not spoilt:
            reporter.advance(so_far.now())
            return [shard_folder(staging, shard) for shard in shards]
        for shard in spoilt:
            log.warning("What was left of %s is not what was written; it is done again", shard)
            shard_reset(shard=shard)


def stage_title(stage: str) -> str:
    """What people read for a stage of shards."""
    return {"count": "count fragments", "vectors": "compute fragments"}[stage]


def _do(
    shard: JobShard,
    worker: str,
    folder: Path,
    work: ShardWork,
    told: ShardTold | None,
) -> None:
    with ShardLease(shard, worker) as keeper:

        def watch(at: int) -> None:
            if keeper.lost:
                raise LeaseLost
            if is_stopping():
                raise WorkerStopping
            if told is not None:
                told(shard, at)

        try:
            report = work(shard, folder, watch)
            shard_complete(shard=shard, worker=worker, result={"seal": seal_digest(folder), **report})
        except (Cancelled, WorkerStopping):
            shard_release(shard=shard, worker=worker)
            raise
        except LeaseLost:
            # Another has this shard, or the job is over; a helper sees which at its next claim.
            shard_release(shard=shard, worker=worker)
            if told is not None:
                told(shard, 0)
        except (DatabaseError, InterfaceError):
            raise
        except Exception as error:
            failure = explain(error)
            log.warning("%s failed", shard, exc_info=error)
            final = failure.code not in WORTH_ANOTHER_TRY
            shard_fail(shard=shard, worker=worker, code=failure.code, message=failure.message, final=final)


def _spoilt(shards: Sequence[JobShard], staging: Path, reporter: Reporter) -> list[JobShard]:
    """Those whose files are not what they were. All are read, so there is a check before each."""
    found = []
    for shard in shards:
        reporter.check()
        if not _is_sound(shard, staging):
            found.append(shard)
    return found


def _is_sound(shard: JobShard, staging: Path) -> bool:
    folder = shard_folder(staging, shard)
    return read_seal(folder) is not None and seal_digest(folder) == shard.result.get("seal")


def _of(job_id: UUID, stage: str) -> list[JobShard]:
    return list(JobShard.objects.filter(job=job_id, stage=stage).order_by("number"))


def _open(job_id: UUID, stage: str) -> int:
    return JobShard.objects.filter(job=job_id, stage=stage).exclude(state=ShardState.DONE).count()


class _Helpers:
    """Who was busy when help was asked for heard nothing of it: while parts wait, it is asked for again."""

    def __init__(self, job_id: UUID, stage: str) -> None:
        self._job_id = job_id
        self._waiting = JobShard.objects.filter(job=job_id, stage=stage, state=ShardState.WAITING)
        self._asked_at = time.monotonic()

    def ask_again(self) -> None:
        """Once a minute at most."""
        if time.monotonic() - self._asked_at < ASK_EVERY_S:
            return
        self._asked_at = time.monotonic()
        shards_dispatch(job_id=self._job_id, count=min(self._waiting.count(), ASKED_AGAIN))


class _Finished:
    """How much of a stage is done by everybody; asked of the database once a second at most."""

    def __init__(self, job_id: UUID, stage: str) -> None:
        self._rows = JobShard.objects.filter(job=job_id, stage=stage, state=ShardState.DONE)
        self._known, self._asked_at = 0, -1.0

    def __call__(self) -> int:
        if self._asked_at < 0 or time.monotonic() - self._asked_at >= 1.0:
            return self.now()
        return self._known

    def now(self) -> int:
        self._known = sum(last - first for first, last in self._rows.values_list("input_range", flat=True))
        self._asked_at = time.monotonic()
        return self._known
