"""Requests that are taken back, against a real server: one answer, ``cancelled``, and the place is free."""

import pytest
from redis import Redis

from inference.queueing import keys
from inference.queueing.messages import InferRequest
from inference.queueing.transport import CallOutstanding, RequestQueue
from tests.integration.inference.queueing.requests import (
    REQUESTS,
    ROOT,
    a_reply,
    a_request,
    a_worker,
    answered,
    replies_in,
)


@pytest.fixture
def queue(redis: Redis) -> RequestQueue:
    return RequestQueue(redis, capacity=10)


def codes(redis: Redis) -> list[tuple[str, str]]:
    """What was answered to whom."""
    return [(reply.id, reply.error.code if reply.error else "ok") for reply in replies_in(redis)]


def named(name: str, serial: int, tenant: str = "acme") -> InferRequest:
    return a_request(f"{name}.{serial}", tenant)


def test_a_request_that_nobody_has_taken_is_answered_and_gone(redis: Redis, queue: RequestQueue) -> None:
    worker = a_worker(redis, "w1")
    for serial, name in enumerate(("first", "second")):
        queue.submit(named(name, serial))
    assert queue.cancel("acme", "first")
    assert codes(redis) == [("first.0", "cancelled")]
    assert queue.depth() == 1
    assert queue.outstanding() == {ROOT: {"acme": 1}}
    assert [entry.request.call for entry in worker.read(10, 0)] == ["second"]


def test_a_request_that_is_computed_already_keeps_its_one_answer(redis: Redis, queue: RequestQueue) -> None:
    worker = a_worker(redis, "w1")
    queue.submit(named("job", 1))
    [entry] = worker.read(10, 0)
    assert worker.answered() == frozenset()
    assert queue.cancel("acme", "job")
    assert queue.outstanding() == {}
    assert worker.answered() == {entry.address}
    assert not answered(worker, entry, a_reply(entry.request))
    assert worker.answered() == frozenset()
    assert codes(redis) == [("job.1", "cancelled")]


def test_only_waiting_requests_are_cancelled_and_only_once(redis: Redis, queue: RequestQueue) -> None:
    worker = a_worker(redis, "w1")
    queue.submit(named("job", 1))
    [entry] = worker.read(10, 0)
    answered(worker, entry, a_reply(entry.request))
    assert not queue.cancel("acme", "job")
    assert not queue.cancel("acme", "never-heard-of")
    queue.submit(named("job", 2))
    assert [queue.cancel("acme", "job") for _ in range(2)] == [True, False]
    assert codes(redis) == [("job.1", "ok"), ("job.2", "cancelled")]


def test_a_name_is_its_tenant_s_alone(redis: Redis, queue: RequestQueue) -> None:
    queue.submit(named("job", 1, "acme"))
    assert not queue.cancel("globex", "job")
    queue.submit(named("job", 2, "globex"))
    assert queue.cancel("globex", "job")
    assert codes(redis) == [("job.2", "cancelled")]
    assert queue.outstanding() == {ROOT: {"acme": 1}}


def test_a_name_is_free_again_once_its_call_has_an_answer(redis: Redis, queue: RequestQueue) -> None:
    worker = a_worker(redis, "w1")
    queue.submit(named("job", 1))
    with pytest.raises(CallOutstanding):
        queue.submit(named("job", 2))
    [entry] = worker.read(10, 0)
    with pytest.raises(CallOutstanding):
        queue.submit(named("job", 2))
    answered(worker, entry, a_reply(entry.request))
    assert queue.submit(named("job", 2)) == 1
    assert queue.cancel("acme", "job")


def test_late_cancellation_does_not_cancel_the_next_request_of_that_name(
    redis: Redis, queue: RequestQueue
) -> None:
    worker, (first, again) = a_worker(redis, "w1"), (named("job", 1), named("job", 2))
    queue.submit(first)
    [entry] = worker.read(10, 0)
    answered(worker, entry, a_reply(entry.request))
    queue.submit(again)
    assert not queue.cancel("acme", "job", request=first.id)
    assert queue.cancel("acme", "job", request=again.id)
    assert codes(redis) == [("job.1", "ok"), ("job.2", "cancelled")]


def test_a_call_is_forgotten_a_minute_after_its_deadline(redis: Redis, queue: RequestQueue) -> None:
    queue.submit(named("job", 1))
    assert 85_000 < int(redis.pttl(keys.call("acme", "job"))) <= 90_000


def test_a_request_that_another_worker_has_claimed_is_not_taken_for_cancelled(
    redis: Redis, queue: RequestQueue
) -> None:
    stalled, other = a_worker(redis, "w1"), a_worker(redis, "w2")
    queue.submit(named("job", 1))
    [entry] = stalled.read(10, 0)
    redis.delete(keys.worker("w1"))
    assert other.claim_abandoned()
    assert stalled.answered() == frozenset()
    assert answered(stalled, entry, a_reply(entry.request))
    assert other.answered() == {entry.address}


def test_cancelling_outlives_the_loss_of_the_queue(redis: Redis, queue: RequestQueue) -> None:
    worker = a_worker(redis, "w1")
    queue.submit(named("job", 1))
    worker.read(10, 0)
    redis.delete(REQUESTS)
    assert worker.answered() == frozenset()
    assert not queue.cancel("acme", "job")
