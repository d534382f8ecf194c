"""Messages to Celery: sent on commit, lost, and sent again."""

import json
import time
from datetime import timedelta
from uuid import UUID

import pytest
import redis
from celery import Celery
from celery._state import get_current_app
from django.db import transaction
from django.utils import timezone

from tenants.base.dispatch import TRAINING_QUEUE
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.tree_factory import TenantFixture
from versiontree.jobs.models import Job, JobState
from versiontree.jobs.services.lease_recovery import leases_recover
from versiontree.jobs.services.lifecycle import job_release
from versiontree.tree.models import Version

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("in_platform_scope")]


def messages(client: redis.Redis) -> list[str]:
    """The job ids in the training queue, those to be served first in front."""
    lists = [client.lrange(name, 0, -1) for name in (TRAINING_QUEUE, f"{TRAINING_QUEUE}\x06\x163")]
    raw = [item for found in lists if isinstance(found, list) for item in reversed(found)]
    return [json.loads(item)["headers"]["argsrepr"] for item in raw]


def taken(count: int) -> list[UUID]:
    """The jobs that a worker is given, in this order."""
    with get_current_app().connection_for_read() as connection:
        queue = connection.SimpleQueue(TRAINING_QUEUE)
        return [UUID(queue.get(timeout=30).payload[0][0]) for _ in range(count)]


def quiet_for(job: Job, seconds: float) -> None:
    Job.unscoped.filter(pk=job.pk).update(dispatched_at=timezone.now() - timedelta(seconds=seconds))


@pytest.fixture
def tuning(root: Version, acme: TenantFixture, redis_client: redis.Redis) -> Job:
    redis_client.flushall()
    return tree_factory.jobs_in_order(tree_factory.new_hplm(root, "spam", acme))[0]


def test_rolled_back_job_is_not_dispatched(
    root: Version, acme: TenantFixture, redis_client: redis.Redis
) -> None:
    redis_client.flushall()
    with transaction.atomic():
        tree_factory.new_hplm(root, "spam", acme)
        transaction.set_rollback(True)
    assert messages(redis_client) == []
    assert not Job.objects.for_tenant(acme.tenant).exists()


def test_the_next_job_is_announced_when_the_one_before_it_succeeds(
    tuning: Job, redis_client: redis.Redis
) -> None:
    tree_factory.do_job(tuning)
    follower = Job.unscoped.get(after=tuning)
    assert messages(redis_client) == [repr([str(follower.pk)]), repr([str(tuning.pk)])]


def test_short_jobs_are_served_before_long_ones_that_came_first(
    tuning: Job, root: Version, globex: TenantFixture
) -> None:
    theirs = tree_factory.jobs_in_order(tree_factory.new_hplm(root, "ham", globex))[0]
    tree_factory.do_job(tuning)
    evaluating = Job.unscoped.get(after=tuning)
    assert taken(3) == [evaluating.pk, tuning.pk, theirs.pk]


def test_a_job_that_is_handed_back_keeps_its_place(tuning: Job, redis_client: redis.Redis) -> None:
    worker = tree_factory.claim(tuning)
    redis_client.flushall()
    job_release(job_id=tuning.pk, worker=worker)
    assert redis_client.llen(TRAINING_QUEUE) == 0
    assert taken(1) == [tuning.pk]


def test_a_lost_message_is_sent_again_and_then_ever_more_rarely(
    tuning: Job, redis_client: redis.Redis
) -> None:
    redis_client.flushall()
    assert leases_recover().redispatched == 0
    quiet_for(tuning, 11)
    assert leases_recover().redispatched == 1
    assert messages(redis_client) == [repr([str(tuning.pk)])]
    quiet_for(tuning, 11)
    assert leases_recover().redispatched == 0
    quiet_for(tuning, 21)
    assert leases_recover().redispatched == 1
    Job.unscoped.filter(pk=tuning.pk).update(dispatches=1000)
    quiet_for(tuning, 301)
    assert leases_recover().redispatched == 1


def test_a_job_whose_worker_died_is_announced_again(tuning: Job, redis_client: redis.Redis) -> None:
    tree_factory.claim(tuning)
    Job.unscoped.filter(pk=tuning.pk).update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    redis_client.flushall()
    leases_recover()
    assert messages(redis_client) == [repr([str(tuning.pk)])]


def test_a_broker_that_is_down_neither_stops_a_write_nor_holds_it_long(
    root: Version, acme: TenantFixture, caplog: pytest.LogCaptureFixture
) -> None:
    working = get_current_app()
    Celery("no broker", broker="redis+socket:///nowhere/valkey.sock?virtual_host=0").set_current()
    started = time.monotonic()
    try:
        version = tree_factory.new_hplm(root, "spam", acme)
    finally:
        working.set_current()
    assert time.monotonic() - started < 10
    assert "the broker is unavailable" in caplog.text
    assert tree_factory.jobs_in_order(version)[0].state == JobState.QUEUED
