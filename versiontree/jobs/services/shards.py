"""Plan, claim, renew and end the shards of a job.

The worker that runs the job and the workers that help it claim shards until none is left. Every change is a
compare-and-set, so a shard has one owner, also after its lease expired and another worker took over.
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
# Not `job__state=`: an update over a join selects its rows in a subquery. PostgreSQL does not run that again
# for a row whose lock it waited for, so two workers would claim the same shard.


@transaction.atomic
def shards_plan(*, job_id: UUID, stage: str, ranges: Sequence[tuple[int, int]]) -> list[JobShard]:
    """Create the shards of a stage, one for each input range, in order.

    Shards of an earlier attempt are kept with their states if it used the same ranges.
    """
    wanted = [list(input_range) for input_range in ranges]
    rows = JobShard.objects.filter(job=job_id, stage=stage).order_by("number")
    if [row.input_range for row in rows] != wanted:
        rows.delete()
        JobShard.objects.bulk_create(
            JobShard(job_id=job_id, stage=stage, number=number, input_range=input_range)
            for number, input_range in enumerate(wanted)
        )
    return list(JobShard.objects.filter(job=job_id, stage=stage).order_by("number"))


def shard_claim(*, job_id: UUID, worker: str, lease_s: float) -> JobShard | None:
    """Claim a shard that waits or whose lease expired. None if there is none.

    A shard whose attempts are used up is marked as failed instead.
    """
    now = timezone.now()
    claimable = Q(state=ShardState.WAITING) | Q(state=ShardState.RUNNING, lease_expires_at__lt=now)
    for shard in JobShard.objects.filter(claimable, _JOB_RUNS, job=job_id).order_by("number"):
        mine = JobShard.objects.filter(
            claimable, _JOB_RUNS, pk=shard.pk, worker=shard.worker, attempts=shard.attempts
        )
        if shard.attempts >= MAX_SHARD_ATTEMPTS:
            _fail(
                mine,
                "job_crashed",
                f"A worker was lost {shard.attempts} times while processing the same part.",
            )
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
    """Renew the lease. Raises ``LeaseLost`` if another worker took over or the job no longer runs."""
    expires_at = timezone.now() + timedelta(seconds=lease_s)
    if not _held(shard, worker).filter(_JOB_RUNS).update(lease_expires_at=expires_at):
        raise LeaseLost


def shard_complete(*, shard: JobShard, worker: str, result: Mapping[str, Any]) -> None:
    """Mark a shard as done. Raises ``LeaseLost``."""
    changes = {"state": ShardState.DONE, "lease_expires_at": None, "result": dict(result)}
    if not _held(shard, worker).update(**changes):
        raise LeaseLost


def shard_release(*, shard: JobShard, worker: str) -> None:
    """Give a shard back because this worker stops. Costs no attempt. A no-op if the lease was lost."""
    changes = {"state": ShardState.WAITING, "worker": "", "lease_expires_at": None}
    _held(shard, worker).update(**changes, attempts=F("attempts") - 1)


def shard_fail(*, shard: JobShard, worker: str, code: str, message: str, final: bool) -> None:
    """End a failed attempt: the shard waits for another one, a no-op if the lease was lost.

    After the last attempt, or a ``final`` error that a retry would repeat, the shard and its job fail.
    """
    if final or shard.attempts >= MAX_SHARD_ATTEMPTS:
        _fail(_held(shard, worker), code, message)
    else:
        _held(shard, worker).update(state=ShardState.WAITING, worker="", lease_expires_at=None)


def shard_reset(*, shard: JobShard) -> None:
    """Have a finished shard done again, because its files are gone or damaged."""
    done = JobShard.objects.filter(pk=shard.pk, state=ShardState.DONE)
    done.update(state=ShardState.WAITING, worker="", result={}, attempts=0)


def shards_retry(*, job_id: UUID) -> None:
    """Reset the shards that failed in an earlier attempt of the job."""
    failed = JobShard.objects.filter(job=job_id, state=ShardState.FAILED)
    failed.update(state=ShardState.WAITING, worker="", attempts=0, error_code="", error_message="")


def shards_dispatch(*, job_id: UUID, count: int) -> None:
    """Send a Celery group of ``count`` messages that ask other workers to help, at most ``MAX_HELPERS``.

    An error of the broker is logged: the worker that runs the job then does all shards itself.
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
        log.exception("Other workers could not be asked to help with job %s", job_id)


def _held(shard: JobShard, worker: str) -> QuerySet[JobShard]:
    return JobShard.objects.filter(pk=shard.pk, state=ShardState.RUNNING, worker=worker)


def _fail(rows: QuerySet[JobShard], code: str, message: str) -> None:
    rows.update(state=ShardState.FAILED, lease_expires_at=None, error_code=code, error_message=message)
