"""The parts of a job that many workers share."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
import redis as redis_library
from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from tests.integration.versiontree import tree_factory
from tests.processes import wait_until
from versiontree.jobs.models import MAX_SHARD_ATTEMPTS, Job, JobShard, ShardState
from versiontree.jobs.services.lifecycle import job_confirm_cancel
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
from versiontree.tree.models import Version

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_platform_scope")]
RANGES = [(0, 10), (10, 20), (20, 25)]


@pytest.fixture
def job(building: Version) -> Job:
    """A running job with three shards."""
    job = tree_factory.jobs_in_order(building)[0]
    tree_factory.claim(job)
    shards_plan(job_id=job.pk, stage="count", ranges=RANGES)
    return job


def take(job: Job, worker: str = "a") -> JobShard:
    shard = shard_claim(job_id=job.pk, worker=worker, lease_s=30)
    assert shard is not None
    return shard


def lose(shard: JobShard) -> None:
    """The worker of a shard falls silent."""
    past = timezone.now() - timedelta(seconds=1)
    JobShard.objects.filter(pk=shard.pk).update(lease_expires_at=past)


def test_every_shard_is_taken_once(job: Job) -> None:
    taken = [take(job, name).input_range for name in "abc"]
    assert taken == [list(part) for part in RANGES]
    assert shard_claim(job_id=job.pk, worker="d", lease_s=30) is None


def test_a_shard_whose_worker_died_is_taken_by_another_alone(job: Job) -> None:
    first, second = take(job, "dead"), take(job, "alive")
    lose(first)
    assert take(job, "heir").pk == first.pk
    second.refresh_from_db()
    assert (second.worker, second.attempts) == ("alive", 1)
    with pytest.raises(LeaseLost):
        shard_complete(shard=first, worker="dead", result={})
    with pytest.raises(LeaseLost):
        shard_renew(shard=first, worker="dead", lease_s=30)
    shard_complete(shard=first, worker="heir", result={"rows": 1})
    first.refresh_from_db()
    assert (first.state, first.attempts, first.result) == (ShardState.DONE, 2, {"rows": 1})


def test_a_shard_that_kills_its_workers_fails_in_the_end(job: Job) -> None:
    shard = take(job)
    for _ in range(MAX_SHARD_ATTEMPTS):
        lose(shard)
        next_ = take(job)
    shard.refresh_from_db()
    assert shard.state == ShardState.FAILED
    assert "lost 3 times" in shard.error_message
    assert next_.pk != shard.pk


def test_a_stopping_worker_gives_its_shard_back_and_that_costs_nothing(job: Job) -> None:
    shard = take(job)
    shard_release(shard=shard, worker="a")
    shard.refresh_from_db()
    assert (shard.state, shard.attempts) == (ShardState.WAITING, 0)


def test_only_a_failure_that_would_repeat_itself_is_the_end(job: Job) -> None:
    for final, state in ((True, ShardState.FAILED), (False, ShardState.WAITING)):
        shard = take(job)
        shard_fail(shard=shard, worker="a", code="out_of_memory", message="too much", final=final)
        shard.refresh_from_db()
        assert (shard.state, shard.attempts) == (state, 1)


def test_shards_of_an_ended_job_are_neither_renewed_nor_claimed(job: Job) -> None:
    shard = take(job)
    job_confirm_cancel(job_id=job.pk, worker=Job.unscoped.get(pk=job.pk).worker)
    with pytest.raises(LeaseLost):
        shard_renew(shard=shard, worker="a", lease_s=30)
    assert shard_claim(job_id=job.pk, worker="b", lease_s=30) is None


def test_next_attempt_keeps_completed_shards_and_retries_failed_ones(job: Job) -> None:
    done, failed = take(job), take(job)
    shard_complete(shard=done, worker="a", result={})
    shard_fail(shard=failed, worker="a", code="job_crashed", message="x", final=True)
    shards_retry(job_id=job.pk)
    states = [shard.state for shard in shards_plan(job_id=job.pk, stage="count", ranges=RANGES)]
    assert states == [ShardState.DONE, ShardState.WAITING, ShardState.WAITING]
    done.refresh_from_db()
    shard_reset(shard=done)
    done.refresh_from_db()
    assert done.state == ShardState.WAITING


def test_another_cut_of_the_stage_starts_it_over(job: Job) -> None:
    shard_complete(shard=take(job), worker="a", result={})
    planned = shards_plan(job_id=job.pk, stage="count", ranges=[(0, 25)])
    assert [(shard.input_range, shard.state) for shard in planned] == [([0, 25], ShardState.WAITING)]


def test_each_shard_is_dispatched_by_one_message(job: Job, broker: str) -> None:
    client = redis_library.Redis.from_url(settings.REDIS_URL)
    queues = [b"training", *(f"training\x06\x16{priority}".encode() for priority in (3, 6, 9))]
    before = sum(client.llen(queue) for queue in queues)
    shards_dispatch(job_id=job.pk, count=2)
    assert sum(client.llen(queue) for queue in queues) == before + 2
    shards_dispatch(job_id=job.pk, count=0)
    assert sum(client.llen(queue) for queue in queues) == before + 2


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_waited_for_anothers_claim_to_end_gets_another_shard(tmp_path: Path) -> None:
    home = tree_factory.create_tenant("acme")
    job = tree_factory.jobs_in_order(tree_factory.new_hplm(tree_factory.ready_root(tmp_path), "spam", home))[
        0
    ]
    tree_factory.claim(job)
    shards_plan(job_id=job.pk, stage="count", ranges=[(0, 1), (1, 2)])

    def second() -> int:
        try:
            return take(job, "b").number
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            first = take(job, "a").number
            waiting = pool.submit(second)
            wait_until(_somebody_waits_for_us)
        assert (first, waiting.result()) == (0, 1)


def _somebody_waits_for_us() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid))")
        return bool(cursor.fetchone()[0])
