"""The shards of a job: planning, claiming and ending them.

Any worker that a message woke takes shards of the job until none is left; the one that runs the job itself
takes shards too and waits for those of the others. Every change is a compare-and-set, so two never end the
same shard, and whoever takes over a shard whose lease ran out owns it alone.
"""

import logging
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from celery import current_app, group
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.utils import timezone

from tenants.base.dispatch import BROKER_OPTIONS, TRAINING_QUEUE
from versiontree.jobs.models import MAX_SHARD_ATTEMPTS, Job, JobShard, JobState, ShardState
from versiontree.jobs.services.transitions import LeaseLost

log = logging.getLogger(__name__)

RUN_SHARDS_TASK: Final = "workers.run_shards"
MAX_HELPERS: Final = 64
HELPER_PRIORITY: Final = 3

_JOB_RUNS: Final = Exists(Job.unscoped.filter(pk=OuterRef("job_id"), state=JobState.RUNNING))
# Not `job__state=`: an update over a join finds its rows by a subquery, which PostgreSQL does not repeat for
# a row that it had to wait for, and two workers would get the same shard.


@transaction.atomic
def shards_plan(*, job_id: UUID, stage: str, pieces: Sequence[tuple[int, int]]) -> list[JobShard]:
    """The shards of a stage, one for each piece, in order. Those of an earlier attempt stay as they are,
    unless it cut the stage into other pieces.
    """
    wanted = [list(piece) for piece in pieces]
    rows = JobShard.objects.filter(job=job_id, stage=stage).order_by("number")
    if [row.piece for row in rows] != wanted:
        rows.delete()
        JobShard.objects.bulk_create(
            JobShard(job_id=job_id, stage=stage, number=number, piece=piece)
            for number, piece in enumerate(wanted)
        )
    return list(JobShard.objects.filter(job=job_id, stage=stage).order_by("number"))


def shard_claim(*, job_id: UUID, worker: str, lease_s: float) -> JobShard | None:
    """Take a shard that waits, or whose worker let its lease run out; None when there is none to take.

    One that was lost as often as it may be fails instead.
    """
    now = timezone.now()
    open_ = Q(state=ShardState.WAITING) | Q(state=ShardState.RUNNING, lease_expires_at__lt=now)
    for shard in JobShard.objects.filter(open_, _JOB_RUNS, job=job_id).order_by("number"):
        mine = JobShard.objects.filter(
            open_, _JOB_RUNS, pk=shard.pk, worker=shard.worker, attempts=shard.attempts
        )
        if shard.attempts >= MAX_SHARD_ATTEMPTS:
            _fail(mine, "job_crashed", f"A worker was lost {shard.attempts} times over the same part.")
            continue
        claimed = mine.update(
            state=ShardState.RUNNING,
            worker=worker,
            lease_expires_at=now + timedelta(seconds=lease_s),
            attempts=F("attempts") + 1,
        )
        if claimed:
            return JobShard.objects.get(pk=shard.pk)
    return None


def shard_renew(*, shard: JobShard, worker: str, lease_s: float) -> None:
    """Hold a shard for longer. Raises ``LeaseLost``: it is another's now, or its job is no longer run."""
    until = timezone.now() + timedelta(seconds=lease_s)
    if not _held(shard, worker).filter(_JOB_RUNS).update(lease_expires_at=until):
        raise LeaseLost


def shard_complete(*, shard: JobShard, worker: str, result: Mapping[str, Any]) -> None:
    """End a shard well. Raises ``LeaseLost``."""
    changes = {"state": ShardState.DONE, "lease_expires_at": None, "result": dict(result)}
    if not _held(shard, worker).update(**changes):
        raise LeaseLost


def shard_release(*, shard: JobShard, worker: str) -> None:
    """Let another do it: this worker stops. Costs no attempt; comes to nothing when the shard was lost."""
    changes = {"state": ShardState.WAITING, "worker": "", "lease_expires_at": None}
    _held(shard, worker).update(**changes, attempts=F("attempts") - 1)


def shard_fail(*, shard: JobShard, worker: str, code: str, message: str, final: bool) -> None:
    """End an attempt badly. The last one, or a ``final`` failure that would only repeat itself, fails the
    shard and with it its job; before that it waits for another. Comes to nothing when the shard was lost.
    """
    if final or shard.attempts >= MAX_SHARD_ATTEMPTS:
        _fail(_held(shard, worker), code, message)
    else:
        _held(shard, worker).update(state=ShardState.WAITING, worker="", lease_expires_at=None)


def shard_redo(*, shard: JobShard) -> None:
    """What a finished shard left is gone or damaged: it waits to be done again."""
    done = JobShard.objects.filter(pk=shard.pk, state=ShardState.DONE)
    done.update(state=ShardState.WAITING, worker="", result={}, attempts=0)


def shards_retry(*, job_id: UUID) -> None:
    """A job begins another attempt: what failed in the one before may be tried again."""
    failed = JobShard.objects.filter(job=job_id, state=ShardState.FAILED)
    failed.update(state=ShardState.WAITING, worker="", attempts=0, error_code="", error_message="")


def shards_dispatch(*, job_id: UUID, count: int) -> None:
    """Ask other workers to help: a Celery group of messages, as many as there are shards for others.

    A broker that is down costs the help and nothing else.
    """
    helpers = min(count, MAX_HELPERS)
    if helpers < 1:
        return
    message = current_app.signature(RUN_SHARDS_TASK, args=[str(job_id)], immutable=True)
    message = message.set(queue=TRAINING_QUEUE, priority=HELPER_PRIORITY)
    try:
        with current_app.connection_for_write(transport_options=BROKER_OPTIONS) as connection:
            group([message.clone() for _ in range(helpers)]).apply_async(connection=connection)
    except Exception:
        log.exception("Nobody was asked to help with job %s", job_id)


def _held(shard: JobShard, worker: str) -> QuerySet[JobShard]:
    return JobShard.objects.filter(pk=shard.pk, state=ShardState.RUNNING, worker=worker)


def _fail(rows: QuerySet[JobShard], code: str, message: str) -> None:
    rows.update(state=ShardState.FAILED, lease_expires_at=None, error_code=code, error_message=message)
