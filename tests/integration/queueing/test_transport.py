"""The queue between the web process and the inference workers, against a real server."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import ResponseError

from inference.queueing import keys
from inference.queueing.connection import connect
from inference.queueing.transport import MAX_DELIVERIES, QueueFull, RequestConsumer, RequestQueue
from tests.integration.queueing.requests import STREAM, a_reply, a_request, a_worker, crash, replies_in
from tests.services import OwnValkey


@pytest.fixture
def queue(redis: Redis) -> RequestQueue:
    return RequestQueue(redis, capacity=100)


def test_an_answered_request_leaves_the_queue(redis: Redis, queue: RequestQueue) -> None:
    worker = a_worker(redis, "w1")
    assert queue.submit(a_request("r1")) == 1
    [entry] = worker.read(10, 0)
    assert worker.held == {entry.entry_id}
    assert worker.answer(entry, a_reply(entry.request))
    assert [reply.id for reply in replies_in(redis)] == ["r1"]
    assert queue.depth() == 0
    assert worker.held == frozenset()
    assert 0 < redis.ttl(STREAM) <= 300


def test_nothing_to_read_is_an_empty_list(redis: Redis) -> None:
    worker = a_worker(redis, "w1")
    assert worker.read(10, 0) == []
    assert worker.read(10, 5) == []
    assert worker.claim_abandoned() == []


def test_requests_submitted_before_the_first_worker_are_served(redis: Redis, queue: RequestQueue) -> None:
    queue.submit(a_request("early"))
    assert [entry.request.id for entry in a_worker(redis, "w1").read(10, 0)] == ["early"]


def test_a_full_queue_refuses_and_says_how_full_it_is(redis: Redis) -> None:
    queue = RequestQueue(redis, capacity=2)
    queue.submit(a_request("r1", "acme"))
    queue.submit(a_request("r2", "globex"))
    with pytest.raises(QueueFull) as refusal:
        queue.submit(a_request("r3", "initech"))
    assert (refusal.value.depth, refusal.value.own) == (2, 0)


def test_who_floods_the_queue_leaves_room_for_the_others(redis: Redis) -> None:
    queue, worker = RequestQueue(redis, capacity=12), a_worker(redis, "w1")

    def flood(tenant: str) -> int:
        for number in range(100):
            try:
                queue.submit(a_request(f"{tenant}-{number}-{queue.depth()}", tenant))
            except QueueFull as full:
                return full.own
        raise AssertionError("there is no end to it")

    assert flood("flood") == 6
    assert flood("second") == 3
    queue.submit(a_request("quiet", "quiet"))
    for entry in worker.read(6, 0):
        worker.answer(entry, a_reply(entry.request))
    assert redis.hgetall(keys.OUTSTANDING) == {b"second": b"3", b"quiet": b"1"}
    assert flood("flood") == 4


def test_a_count_without_requests_is_forgotten(redis: Redis) -> None:
    """As when somebody deletes the stream by hand."""
    queue = RequestQueue(redis, capacity=4)
    for number in range(2):
        queue.submit(a_request(f"r{number}"))
    redis.delete(keys.REQUESTS)
    assert queue.submit(a_request("r3")) == 1
    assert redis.hgetall(keys.OUTSTANDING) == {b"acme": b"1"}


def test_a_message_that_nobody_can_read_gives_its_place_back(redis: Redis) -> None:
    queue, worker = RequestQueue(redis, capacity=4), a_worker(redis, "w1")
    queue.submit(a_request("r1"))
    entry: Any = {keys.FIELD: b"nonsense", keys.TENANT_FIELD: b"globex"}
    redis.xadd(keys.REQUESTS, entry)
    redis.hincrby(keys.OUTSTANDING, "globex", 1)
    assert len(worker.read(10, 0)) == 1
    assert redis.hgetall(keys.OUTSTANDING) == {b"acme": b"1"}


def test_a_request_in_work_still_counts_against_the_capacity(redis: Redis) -> None:
    queue = RequestQueue(redis, capacity=1)
    worker = a_worker(redis, "w1")
    queue.submit(a_request("r1"))
    [entry] = worker.read(10, 0)
    with pytest.raises(QueueFull):
        queue.submit(a_request("r2"))
    worker.answer(entry, a_reply(entry.request))
    queue.submit(a_request("r2"))


def test_sixteen_threads_never_pass_the_capacity(redis: Redis, redis_url: str) -> None:
    def submit_many(thread: int) -> int:
        accepted = 0
        with connect(redis_url) as own:
            queue = RequestQueue(own, capacity=40)
            for number in range(25):
                try:
                    assert queue.submit(a_request(f"{thread}-{number}", f"{thread}-{number}")) <= 40
                    accepted += 1
                except QueueFull:
                    continue
        return accepted

    with ThreadPoolExecutor(16) as pool:
        accepted = sum(pool.map(submit_many, range(16)))
    assert accepted == 40 == redis.xlen(keys.REQUESTS)


def test_submitting_the_same_id_again_is_not_a_second_request(redis: Redis) -> None:
    queue = RequestQueue(redis, capacity=1)
    queue.submit(a_request("r1"))
    queue.submit(a_request("r1"))
    assert queue.depth() == 1


def test_only_the_first_answer_counts(redis: Redis, queue: RequestQueue) -> None:
    slow, quick = a_worker(redis, "slow"), a_worker(redis, "quick")
    queue.submit(a_request("r1"))
    [held] = slow.read(1, 0)
    crash(redis, "slow")
    [claimed] = quick.claim_abandoned()
    assert quick.answer(claimed, a_reply(claimed.request, "quick"))
    assert not slow.answer(held, a_reply(held.request, "slow"))
    assert [reply.results[0]["label"] for reply in replies_in(redis)] == ["quick"]


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
    assert [info["name"] for info in redis.xinfo_consumers(keys.REQUESTS, keys.GROUP)] == [b"w1"]


def test_a_delivery_that_never_arrived_is_found_again(redis: Redis, queue: RequestQueue) -> None:
    worker = a_worker(redis, "w1")
    queue.submit(a_request("seen"))
    worker.read(1, 0)
    queue.submit(a_request("lost"))
    redis.xreadgroup(keys.GROUP, "w1", {keys.REQUESTS: ">"})
    assert [entry.request.id for entry in worker.claim_abandoned(10)] == ["lost"]
    assert worker.claim_abandoned(10) == []


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


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"nonsense",
        b"[]",
        b'{"v": 1}',
        b'{"v": 1, "id": "x"}',
        b"\xff\xfe",
        b'{"v": 1, "id": "x", "reply_to": "celery"}',
    ],
)
def test_an_entry_that_cannot_be_read_nor_answered_is_dropped(redis: Redis, payload: bytes) -> None:
    worker = a_worker(redis, "w1")
    redis.xadd(keys.REQUESTS, {keys.FIELD: payload})
    assert worker.read(10, 0) == []
    assert redis.xlen(keys.REQUESTS) == 0
    assert redis.xpending(keys.REQUESTS, keys.GROUP)["pending"] == 0
    assert worker.held == frozenset()


def test_an_entry_of_other_fields_is_dropped(redis: Redis) -> None:
    worker = a_worker(redis, "w1")
    redis.xadd(keys.REQUESTS, {"other": b"1"})
    assert worker.read(10, 0) == []
    assert redis.xlen(keys.REQUESTS) == 0


def test_an_unreadable_request_that_says_who_asked_is_answered(redis: Redis) -> None:
    worker = a_worker(redis, "w1")
    redis.xadd(keys.REQUESTS, {keys.FIELD: b'{"v": 1, "id": "x", "reply_to": "%s"}' % STREAM.encode()})
    assert worker.read(10, 0) == []
    [reply] = replies_in(redis)
    assert reply.id == "x"
    assert reply.error is not None


def test_a_worker_that_owes_nothing_leaves_no_trace(redis: Redis, queue: RequestQueue) -> None:
    worker = a_worker(redis, "w1")
    queue.submit(a_request("r1"))
    worker.read(1, 0)
    worker.leave()
    assert len(redis.xinfo_consumers(keys.REQUESTS, keys.GROUP)) == 1
    crash(redis, "w1")
    other = a_worker(redis, "w2")
    [entry] = other.claim_abandoned()
    other.answer(entry, a_reply(entry.request))
    other.leave()
    worker.leave()
    assert redis.xinfo_consumers(keys.REQUESTS, keys.GROUP) == []


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


def test_a_restarted_server_loses_no_accepted_request(own_server: OwnValkey) -> None:
    redis = connect(own_server.url)
    worker = a_worker(redis, "w1")
    queue = RequestQueue(redis, capacity=10)
    queue.submit(a_request("taken"))
    [taken] = worker.read(1, 0)
    queue.submit(a_request("waiting"))
    own_server.kill()
    own_server.start()
    [waiting] = worker.read(1, 0)
    assert worker.answer(taken, a_reply(taken.request))
    assert worker.answer(waiting, a_reply(waiting.request))
    assert [reply.id for reply in replies_in(redis)] == ["taken", "waiting"]


def test_an_answer_to_a_lost_stream_does_not_count(redis: Redis, queue: RequestQueue) -> None:
    worker = a_worker(redis, "w1")
    queue.submit(a_request("r1"))
    [entry] = worker.read(1, 0)
    redis.flushall()
    assert not worker.answer(entry, a_reply(entry.request))
    assert worker.held == frozenset()


def test_a_request_whose_reply_key_is_no_stream_is_let_go_of(redis: Redis, queue: RequestQueue) -> None:
    worker = a_worker(redis, "w1")
    redis.set(STREAM, "taken")
    queue.submit(a_request("r1"))
    [entry] = worker.read(1, 0)
    worker.answer(entry, a_reply(entry.request))
    assert queue.depth() == 0


def test_a_server_out_of_memory_refuses_an_answer_whole_and_nothing_is_lost(own_server: OwnValkey) -> None:
    redis = connect(own_server.url)
    worker = a_worker(redis, "w1")
    redis.xadd(keys.REQUESTS, {keys.FIELD: b'{"v": 1, "id": "bad", "reply_to": "%s"}' % STREAM.encode()})
    RequestQueue(redis, capacity=10).submit(a_request("good"))
    redis.config_set("maxmemory", 1)
    with pytest.raises(ResponseError, match="memory"):
        worker.read(10, 0)
    assert worker.held == frozenset()
    redis.config_set("maxmemory", 0)
    [entry] = worker.claim_abandoned(10)
    redis.config_set("maxmemory", 1)
    with pytest.raises(ResponseError, match="memory"):
        worker.answer(entry, a_reply(entry.request))
    redis.config_set("maxmemory", 0)
    assert worker.answer(entry, a_reply(entry.request))
    assert [reply.id for reply in replies_in(redis)] == ["bad", "good"]


def test_claiming_needs_no_reading_first(redis: Redis) -> None:
    redis.set(keys.worker("w1"), b"{}")
    worker = RequestConsumer(redis, "w1")
    worker.open()
    worker.open()
    assert worker.claim_abandoned(5) == []
