"""The queue between the web process and the inference workers, against a real server."""

from typing import Any

import pytest
from msgspec import msgpack
from redis import Redis
from redis.exceptions import ResponseError

from inference.queueing import keys
from inference.queueing.connection import connect
from inference.queueing.consumer import MAX_DELIVERIES
from inference.queueing.transport import RequestQueue
from tests.integration.inference.queueing.requests import (
    REQUESTS,
    STREAM,
    a_reply,
    a_request,
    a_worker,
    answered,
    crash,
    replies_in,
    said_in,
)
from tests.services import OwnValkey


@pytest.fixture
def queue(redis: Redis) -> RequestQueue:
    return RequestQueue(redis, capacity=100)


def test_an_answered_request_leaves_the_queue(redis: Redis, queue: RequestQueue) -> None:
    worker = a_worker(redis, "w1")
    assert queue.submit(a_request("r1")) == 1
    [entry] = worker.read(10, 0)
    assert worker.held == {entry.address}
    assert answered(worker, entry, a_reply(entry.request))
    assert [reply.id for reply in replies_in(redis)] == ["r1"]
    assert queue.depth() == 0
    assert worker.held == frozenset()
    assert 0 < redis.ttl(STREAM) <= 300


def test_of_answers_sent_together_each_counts_unless_it_came_before(
    redis: Redis, queue: RequestQueue
) -> None:
    worker = a_worker(redis, "w1")
    for name in ("r1", "r2", "r3"):
        queue.submit(a_request(name))
    entries = worker.read(10, 0)
    assert answered(worker, entries[1], a_reply(entries[1].request, "early"))
    together = [(entry, a_reply(entry.request, "together")) for entry in entries]
    assert worker.answer_all(together) == [True, False, True]
    told = [(reply.id, said_in(reply)) for reply in replies_in(redis)]
    assert told == [("r2", "early"), ("r1", "together"), ("r3", "together")]
    assert (queue.depth(), worker.held, worker.answer_all([])) == (0, frozenset(), [])


def test_the_work_of_a_living_worker_is_left_alone(redis: Redis, queue: RequestQueue) -> None:
    first, second = a_worker(redis, "w1"), a_worker(redis, "w2")
    queue.submit(a_request("r1"))
    first.read(1, 0)
    assert second.claim_abandoned(10) == []


def test_two_workers_never_claim_the_same_request(redis: Redis, queue: RequestQueue) -> None:
    dead, first, second = (a_worker(redis, name) for name in ("dead", "w1", "w2"))
    for number in range(6):
        queue.submit(a_request(f"r{number}"))
    dead.read(10, 0)
    crash(redis, "dead")
    claimed = first.claim_abandoned(4) + second.claim_abandoned(4)
    assert sorted(entry.request.id for entry in claimed) == [f"r{number}" for number in range(6)]
    assert {entry.deliveries for entry in claimed} == {2}


def test_a_dead_worker_without_work_is_forgotten(redis: Redis) -> None:
    a_worker(redis, "dead")
    crash(redis, "dead")
    a_worker(redis, "w1").claim_abandoned()
    assert [info["name"] for info in redis.xinfo_consumers(REQUESTS, keys.GROUP)] == [b"w1"]


def test_what_a_dead_worker_left_and_what_never_arrived_are_found_once_each(
    redis: Redis, queue: RequestQueue
) -> None:
    dead, worker = a_worker(redis, "a-dead"), a_worker(redis, "b-alive")
    queue.submit(a_request("left"))
    dead.read(1, 0)
    crash(redis, "a-dead")
    queue.submit(a_request("lost"))
    redis.xreadgroup(keys.GROUP, "b-alive", {REQUESTS: ">"})
    claimed = worker.claim_abandoned(10)
    assert sorted((entry.request.id, entry.deliveries) for entry in claimed) == [("left", 2), ("lost", 2)]


def test_a_request_that_kills_three_workers_is_answered_with_an_error(
    redis: Redis, queue: RequestQueue
) -> None:
    queue.submit(a_request("poison"))
    for number in range(MAX_DELIVERIES):
        worker = a_worker(redis, f"victim{number}")
        entries = worker.read(1, 0) if number == 0 else worker.claim_abandoned()
        assert [entry.deliveries for entry in entries] == [number + 1]
        crash(redis, f"victim{number}")
    assert a_worker(redis, "survivor").claim_abandoned() == []
    [reply] = replies_in(redis)
    assert reply.error is not None
    assert (reply.id, reply.error.code) == ("poison", "inference_failed")
    assert queue.depth() == 0


def test_neighbors_of_a_crashing_request_are_delivered_once_more(redis: Redis, queue: RequestQueue) -> None:
    names = ["r0", "poison", "r1", "r2"]
    for name in names:
        queue.submit(a_request(name))
    a_worker(redis, "victim0").read(10, 0)
    poison_deliveries = []
    for number in range(1, MAX_DELIVERIES + 1):
        crash(redis, f"victim{number - 1}")
        worker = a_worker(redis, f"victim{number}")
        queue.submit(a_request(f"new{number}"))
        worker.read(1, 0)
        while entries := worker.claim_abandoned():
            if entries[0].request.id == "poison":
                poison_deliveries.append(entries[0].deliveries)
                break
            assert entries[0].deliveries == 2
            assert answered(worker, entries[0], a_reply(entries[0].request))
            worker.clear(entries[0])
    assert poison_deliveries == [2, 3]
    assert [reply.id for reply in replies_in(redis) if not reply.ok] == ["poison"]
    assert {entry.deliveries for entry in worker.claim_abandoned(10)} == {2}


@pytest.mark.parametrize(
    "fields",
    [
        {keys.FIELD: b""},
        {keys.FIELD: b"\xff\xfe"},
        {keys.FIELD: b'{"v": 1, "id": "x", "reply_to": "celery"}'},
        {"other": b"1"},
    ],
)
def test_an_entry_that_cannot_be_read_nor_answered_is_dropped(redis: Redis, fields: Any) -> None:
    worker = a_worker(redis, "w1")
    redis.xadd(REQUESTS, fields)
    assert worker.read(10, 0) == []
    assert redis.xlen(REQUESTS) == 0
    assert redis.xpending(REQUESTS, keys.GROUP)["pending"] == 0
    assert worker.held == frozenset()


def test_an_unreadable_request_that_says_who_asked_is_answered(redis: Redis) -> None:
    worker = a_worker(redis, "w1")
    redis.xadd(REQUESTS, {keys.FIELD: msgpack.encode({"v": 1, "id": "x", "reply_to": STREAM})})
    assert worker.read(10, 0) == []
    [reply] = replies_in(redis)
    assert reply.id == "x"
    assert reply.error is not None


def test_a_worker_that_owes_nothing_leaves_no_trace(redis: Redis, queue: RequestQueue) -> None:
    worker = a_worker(redis, "w1")
    queue.submit(a_request("r1"))
    worker.read(1, 0)
    worker.leave()
    assert len(redis.xinfo_consumers(REQUESTS, keys.GROUP)) == 1
    crash(redis, "w1")
    other = a_worker(redis, "w2")
    [entry] = other.claim_abandoned()
    answered(other, entry, a_reply(entry.request))
    other.leave()
    worker.leave()
    assert redis.xinfo_consumers(REQUESTS, keys.GROUP) == []


def test_a_lost_stream_is_started_anew(redis: Redis, queue: RequestQueue) -> None:
    worker = a_worker(redis, "w1")
    redis.flushall()
    assert worker.read(1, 0) == []
    queue.submit(a_request("r1"))
    assert [entry.request.id for entry in worker.read(1, 0)] == ["r1"]
    redis.flushall()
    assert worker.claim_abandoned() == []
    queue.submit(a_request("r2"))
    assert [entry.request.id for entry in worker.read(1, 0)] == ["r2"]


def test_an_answer_to_a_lost_stream_does_not_count(redis: Redis, queue: RequestQueue) -> None:
    worker = a_worker(redis, "w1")
    queue.submit(a_request("r1"))
    [entry] = worker.read(1, 0)
    redis.flushall()
    assert not answered(worker, entry, a_reply(entry.request))
    assert worker.held == frozenset()


def test_a_request_whose_reply_key_is_no_stream_is_let_go_of(redis: Redis, queue: RequestQueue) -> None:
    worker = a_worker(redis, "w1")
    redis.set(STREAM, "taken")
    queue.submit(a_request("r1"))
    [entry] = worker.read(1, 0)
    answered(worker, entry, a_reply(entry.request))
    assert queue.depth() == 0


def test_a_server_out_of_memory_refuses_an_answer_whole_and_nothing_is_lost(own_server: OwnValkey) -> None:
    redis = connect(own_server.url)
    worker = a_worker(redis, "w1")
    redis.xadd(REQUESTS, {keys.FIELD: msgpack.encode({"v": 1, "id": "bad", "reply_to": STREAM})})
    RequestQueue(redis, capacity=10).submit(a_request("good"))
    redis.config_set("maxmemory", 1)
    with pytest.raises(ResponseError, match="memory"):
        worker.read(10, 0)
    assert worker.held == frozenset()
    redis.config_set("maxmemory", 0)
    [entry] = worker.claim_abandoned(10)
    redis.config_set("maxmemory", 1)
    with pytest.raises(ResponseError, match="memory"):
        answered(worker, entry, a_reply(entry.request))
    redis.config_set("maxmemory", 0)
    assert answered(worker, entry, a_reply(entry.request))
    assert [reply.id for reply in replies_in(redis)] == ["bad", "good"]
