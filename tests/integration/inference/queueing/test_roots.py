"""A request goes where its root is served: one stream for each root, one queue for all, on a real server."""

import time

import msgspec
import pytest
from redis import Redis

from inference.queueing import keys
from inference.queueing.consumer import RequestConsumer
from inference.queueing.transport import CallOutstanding, RequestQueue
from tests.integration.inference.queueing.requests import (
    OTHER_ROOT,
    ROOT,
    a_reply,
    a_request,
    a_worker,
    answered,
    crash,
    depth,
    replies_in,
)


@pytest.fixture
def queue(redis: Redis) -> RequestQueue:
    return RequestQueue(redis, capacity=100)


def taken(worker: RequestConsumer) -> set[str]:
    return {entry.request.id for entry in worker.read(10, 0)}


def test_each_worker_reads_what_is_for_its_roots_and_nothing_else(redis: Redis, queue: RequestQueue) -> None:
    one, other, both = (
        a_worker(redis, name, *roots)
        for name, *roots in (("w1", ROOT), ("w2", OTHER_ROOT), ("w3", ROOT, OTHER_ROOT))
    )
    queue.submit(a_request("r1"))
    queue.submit(a_request("r2", root=OTHER_ROOT))
    assert (taken(one), taken(other), taken(both)) == ({"r1"}, {"r2"}, set())
    queue.submit(a_request("r3"))
    queue.submit(a_request("r4", root=OTHER_ROOT))
    assert taken(both) == {"r3", "r4"}


def test_requests_of_a_dead_worker_are_claimed_by_one_that_serves_their_root(
    redis: Redis, queue: RequestQueue
) -> None:
    dead, same, stranger = a_worker(redis, "dead"), a_worker(redis, "w1"), a_worker(redis, "w2", OTHER_ROOT)
    queue.submit(a_request("r1"))
    dead.read(1, 0)
    crash(redis, "dead")
    assert stranger.claim_abandoned(10) == []
    assert [entry.request.id for entry in same.claim_abandoned(10)] == ["r1"]


def test_what_is_claimed_of_several_roots_is_no_more_than_was_asked_for(
    redis: Redis, queue: RequestQueue
) -> None:
    dead, worker = (a_worker(redis, name, ROOT, OTHER_ROOT) for name in ("dead", "w1"))
    for number in range(4):
        queue.submit(a_request(f"r{number}", root=(ROOT, OTHER_ROOT)[number % 2]))
    dead.read(10, 0)
    crash(redis, "dead")
    assert len(worker.claim_abandoned(1)) == 1
    assert len(worker.claim_abandoned(10)) == 3


def test_a_worker_follows_as_roots_come_and_go(redis: Redis, queue: RequestQueue) -> None:
    worker = a_worker(redis, "w1", ROOT)
    queue.submit(a_request("early", root=OTHER_ROOT))
    assert taken(worker) == set()
    worker.follow([OTHER_ROOT])
    queue.submit(a_request("r1"))
    assert taken(worker) == {"early"}
    assert redis.xinfo_consumers(keys.requests(ROOT), keys.GROUP) == []
    worker.follow([])
    assert worker.read(10, 1) == []
    worker.follow([ROOT])
    assert taken(worker) == {"r1"}


def test_held_request_of_a_root_that_was_given_up_is_answered(redis: Redis, queue: RequestQueue) -> None:
    worker = a_worker(redis, "w1", ROOT)
    queue.submit(a_request("r1"))
    [entry] = worker.read(10, 0)
    worker.follow([OTHER_ROOT])
    assert a_worker(redis, "w2", ROOT).claim_abandoned(10) == []
    assert answered(worker, entry, a_reply(entry.request))
    worker.follow([OTHER_ROOT])
    assert [one["name"] for one in redis.xinfo_consumers(keys.requests(ROOT), keys.GROUP)] == [b"w2"]
    assert [reply.id for reply in replies_in(redis)] == ["r1"]


def test_what_waits_and_what_is_taken_is_counted_over_all_roots(redis: Redis, queue: RequestQueue) -> None:
    worker = a_worker(redis, "w1", OTHER_ROOT)
    for number, root in enumerate((ROOT, OTHER_ROOT, OTHER_ROOT)):
        queue.submit(a_request(f"r{number}", root=root))
    assert (queue.depth(), queue.delivered()) == (3, 0)
    entries = worker.read(10, 0)
    assert (queue.depth(), queue.delivered()) == (3, 2)
    answered(worker, entries[0], a_reply(entries[0].request))
    assert (queue.depth(), queue.delivered()) == (2, 1)


def test_a_name_is_taken_whatever_root_it_is_for_and_can_be_cancelled(
    redis: Redis, queue: RequestQueue
) -> None:
    worker = a_worker(redis, "w1", ROOT, OTHER_ROOT)
    queue.submit(a_request("job.1", root=OTHER_ROOT))
    with pytest.raises(CallOutstanding):
        queue.submit(a_request("job.2"))
    [entry] = worker.read(10, 0)
    assert queue.cancel("acme", "job")
    assert worker.answered() == {entry.address}
    queue.submit(a_request("job.2"))
    assert not answered(worker, entry, a_reply(entry.request))
    with pytest.raises(CallOutstanding):
        queue.submit(a_request("job.3", root=OTHER_ROOT))


def test_entries_of_two_roots_with_the_same_id_are_not_mixed_up(redis: Redis) -> None:
    worker = a_worker(redis, "w1", ROOT, OTHER_ROOT)
    for number, root in enumerate((ROOT, OTHER_ROOT)):
        message = a_request(f"r{number}", root=root).encode()
        redis.xadd(keys.requests(root), {keys.FIELD: message}, id="7-7")
    one, other = worker.read(10, 0)
    assert len(worker.held) == 2
    assert answered(worker, one, a_reply(one.request))
    assert worker.held == {other.address}
    assert worker.answered() == frozenset()


def test_late_request_for_a_root_that_nobody_serves_is_answered(redis: Redis, queue: RequestQueue) -> None:
    worker, now = a_worker(redis, "w1", ROOT), time.time()
    queue.submit(msgspec.structs.replace(a_request("late", root=OTHER_ROOT), deadline=now + 5))
    queue.submit(a_request("in-time", root=OTHER_ROOT))
    queue.submit(msgspec.structs.replace(a_request("own"), deadline=now + 5))
    assert worker.overdue_elsewhere(now + 4) == []
    [entry] = worker.overdue_elsewhere(now + 6)
    assert (entry.request.id, entry.deliveries) == ("late", 0)
    assert answered(worker, entry, a_reply(entry.request))
    assert not answered(worker, entry, a_reply(entry.request))
    assert [reply.id for reply in replies_in(redis)] == ["late"]
    assert queue.outstanding() == {ROOT: {"acme": 1}, OTHER_ROOT: {"acme": 1}}


def test_nonsense_where_nobody_serves_it_does_not_stay(redis: Redis, queue: RequestQueue) -> None:
    queue.submit(a_request("r1", root=OTHER_ROOT))
    redis.xadd(keys.requests(OTHER_ROOT), {keys.FIELD: b"nonsense"})
    assert a_worker(redis, "w1", ROOT).overdue_elsewhere(time.time() + 5) == []
    assert depth(redis) == 1


def test_one_lost_stream_is_started_anew_and_the_others_go_on(redis: Redis, queue: RequestQueue) -> None:
    worker = a_worker(redis, "w1", ROOT, OTHER_ROOT)
    queue.submit(a_request("kept"))
    queue.submit(a_request("lost", root=OTHER_ROOT))
    assert len(worker.read(10, 0)) == 2
    redis.delete(keys.requests(OTHER_ROOT))
    assert worker.read(10, 0) == []
    assert {address.root for address in worker.held} == {ROOT}
    queue.submit(a_request("new", root=OTHER_ROOT))
    assert taken(worker) == {"new"}


def test_what_a_worker_holds_of_a_root_that_it_served_is_not_late_elsewhere(
    redis: Redis, queue: RequestQueue
) -> None:
    queue.submit(msgspec.structs.replace(a_request("r1"), deadline=time.time() + 5))
    worker = a_worker(redis, "w1", ROOT)
    assert [entry.request.id for entry in worker.read(1, 0)] == ["r1"]
    worker.follow([])
    assert worker.overdue_elsewhere(time.time() + 60) == []
    other = a_worker(redis, "w2", OTHER_ROOT)
    assert [late.request.id for late in other.overdue_elsewhere(time.time() + 60)] == ["r1"]
