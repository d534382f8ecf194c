"""Who is let into the queue, and who is refused, against a real server."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from django.conf import settings
from msgspec.structs import replace
from redis import Redis

from inference.queueing import keys
from inference.queueing.connection import connect
from inference.queueing.messages import InferRequest
from inference.queueing.transport import (
    LARGEST_TOKENS,
    QueueFull,
    RequestQueue,
    answers_until_room,
    tenant_capacity,
)
from tests.integration.inference.queueing.requests import (
    OTHER_ROOT,
    REQUESTS,
    ROOT,
    a_reply,
    a_request,
    a_worker,
    answered,
    sequence_of,
)


def a_large_request(request_id: str, tenant: str) -> InferRequest:
    """A request of LARGEST_TOKENS tokens."""
    return replace(a_request(request_id, tenant), sequences=(sequence_of(LARGEST_TOKENS * "a"),))


def test_tenant_that_floods_the_queue_leaves_room_for_others(redis: Redis) -> None:
    queue, worker = RequestQueue(redis, capacity=12), a_worker(redis, "w1")

    def flood(tenant: str) -> int:
        for number in range(100):
            try:
                queue.submit(a_request(f"{tenant}-{number}-{queue.depth()}", tenant))
            except QueueFull as full:
                return full.own
        raise AssertionError("there is no end to it")

    assert flood("flood") == tenant_capacity(12) == 10
    assert flood("second") == 1
    queue.submit(a_request("quiet", "quiet"))
    for entry in worker.read(10, 0):
        answered(worker, entry, a_reply(entry.request))
    assert queue.outstanding() == {ROOT: {"second": 1, "quiet": 1}}
    assert flood("flood") == 8


def test_requests_with_many_tokens_leave_room_for_those_of_the_others(redis: Redis) -> None:
    queue, worker = RequestQueue(redis, capacity=40), a_worker(redis, "w1")
    for number in range(8):
        queue.submit(a_large_request(f"r{number}", "acme"))
    with pytest.raises(QueueFull) as full:
        queue.submit(a_large_request("r8", "acme"))
    assert (full.value.depth, full.value.own) == (8, 8)
    queue.submit(a_large_request("other", "globex"))
    with pytest.raises(QueueFull):  # all tokens are taken
        queue.submit(a_large_request("third", "initech"))
    for entry in worker.read(9, 0):
        answered(worker, entry, a_reply(entry.request))
    queue.submit(a_large_request("r8", "acme"))
    assert queue.outstanding_tokens() == {ROOT: {"acme": LARGEST_TOKENS}}


def test_in_the_background_each_request_may_have_the_tokens_of_the_largest(redis: Redis) -> None:
    queue = RequestQueue(redis, capacity=20, background=True)
    for number in range(17):
        queue.submit(a_large_request(f"r{number}", "acme"))
    for tenant in ("globex", "initech", "umbra"):
        queue.submit(a_large_request("other", tenant))
    with pytest.raises(QueueFull) as full:
        queue.submit(a_request("one more", "late"))
    assert (full.value.depth, full.value.own) == (20, 0)


@pytest.mark.parametrize("capacity", [1, 3, 40])
def test_a_refusal_tells_how_many_answers_make_room(redis: Redis, capacity: int) -> None:
    queue, worker = RequestQueue(redis, capacity=capacity), a_worker(redis, "w1")
    for number in range(tenant_capacity(capacity)):
        queue.submit(a_request(f"r{number}"))
    with suppress(QueueFull):
        queue.submit(a_request("other", "globex"))
    with pytest.raises(QueueFull) as full:
        queue.submit(a_request("next"))
    needed = answers_until_room(full.value, capacity)
    for entry in worker.read(needed - 1, 0) if needed > 1 else []:
        answered(worker, entry, a_reply(entry.request))
    with pytest.raises(QueueFull):
        queue.submit(a_request("next"))
    for entry in worker.read(1, 0):
        answered(worker, entry, a_reply(entry.request))
    queue.submit(a_request("next"))


def test_tokens_are_counted_until_their_request_is_answered_or_cancelled(redis: Redis) -> None:
    queue, worker = RequestQueue(redis, capacity=10), a_worker(redis, "w1")
    long = (sequence_of(500 * "a"), sequence_of(7 * "a"))
    queue.submit(replace(a_request("long", "acme"), sequences=long))
    queue.submit(a_request("short", "acme"))
    queue.submit(a_request("other", "globex"))
    short = a_request("short").tokens
    assert queue.outstanding_tokens() == {ROOT: {"acme": 507 + short, "globex": short}}
    [entry] = worker.read(1, 0)
    answered(worker, entry, a_reply(entry.request))
    assert queue.outstanding_tokens() == {ROOT: {"acme": short, "globex": short}}
    queue.submit(a_request("short", "acme"))  # a retry after a lost connection
    assert queue.outstanding_tokens() == {ROOT: {"acme": short, "globex": short}}
    assert queue.cancel("globex", "other")
    assert queue.outstanding_tokens() == {ROOT: {"acme": short}}


def test_a_count_without_requests_is_forgotten(redis: Redis) -> None:
    """As when somebody deletes the stream by hand."""
    queue = RequestQueue(redis, capacity=4)
    for number in range(2):
        queue.submit(a_request(f"r{number}"))
    redis.delete(REQUESTS)
    assert queue.submit(a_request("r3")) == 1
    assert queue.outstanding() == {ROOT: {"acme": 1}}
    assert queue.outstanding_tokens() == {ROOT: {"acme": a_request("r3").tokens}}


def test_the_tokens_of_a_lost_stream_are_forgotten_while_another_root_is_busy(redis: Redis) -> None:
    queue = RequestQueue(redis, capacity=40)
    queue.submit(a_request("elsewhere", "globex", root=OTHER_ROOT))
    for number in range(8):
        queue.submit(a_large_request(f"r{number}", "acme"))
    redis.delete(REQUESTS)
    for number in range(8):
        queue.submit(a_large_request(f"again{number}", "initech"))


def test_a_message_that_nobody_can_read_gives_its_place_back(redis: Redis) -> None:
    queue, worker = RequestQueue(redis, capacity=4), a_worker(redis, "w1")
    queue.submit(a_request("r1"))
    entry: Any = {keys.FIELD: b"nonsense", keys.TENANT_FIELD: b"globex"}
    redis.xadd(REQUESTS, entry)
    redis.hincrby(keys.OUTSTANDING, keys.share(ROOT, "globex"), 1)
    assert len(worker.read(10, 0)) == 1
    assert queue.outstanding() == {ROOT: {"acme": 1}}
    assert queue.outstanding_tokens() == {ROOT: {"acme": a_request("r1").tokens}}


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
    assert accepted == 40 == redis.xlen(REQUESTS)


def test_each_of_many_threads_has_a_connection(redis_url: str) -> None:
    with connect(redis_url) as own:
        held = [own.connection_pool.get_connection() for _ in range(2 * settings.HMI_WEB_THREADS)]
        assert len({id(connection) for connection in held}) == 2 * settings.HMI_WEB_THREADS
        for connection in held:
            own.connection_pool.release(connection)
