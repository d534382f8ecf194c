"""Signs of life, against a real server."""

import threading
import time
from contextlib import suppress

from redis import Redis

from inference.queueing import keys
from inference.queueing.heartbeat import Heartbeat
from inference.queueing.status import (
    SERVED_LATELY_S,
    Recently,
    TracedSpan,
    WorkerStatus,
    roots_served_lately,
    workers_alive,
)
from tests.processes import wait_until

READY = WorkerStatus(
    name="w1",
    state="ready",
    device="cpu",
    dtype="float32",
    roots=("mini",),
    batches=3,
    rows=9,
    resident=2,
    resident_bytes=600,
    waiting=5,
    recently=Recently(1.5, 4, 10.0, 20.0, 30.0, (TracedSpan("compute", 3, "compute", 0.0, 7.5),), 2.5),
)


def test_a_heartbeat_outlives_its_ttl_while_entered_and_not_after(redis: Redis) -> None:
    beats: list[None] = []

    def status() -> bytes:
        beats.append(None)
        return READY.encode()

    with Heartbeat(redis, "w1", status, life_s=0.9):
        # The first of them would have expired. The last may, too, where the machine stalls, until the next.
        wait_until(lambda: len(beats) > 4 and workers_alive(redis) == [READY])
    assert workers_alive(redis) == []
    assert redis.smembers(keys.WORKERS) == set()


def test_a_heartbeat_of_a_dead_process_expires(redis: Redis) -> None:
    beat = Heartbeat(redis, "w1", READY.encode, life_s=0.1)
    beat.beat()
    time.sleep(0.2)
    assert redis.exists(keys.worker("w1")) == 0
    assert workers_alive(redis) == []
    assert redis.smembers(keys.WORKERS) == set()


def test_heartbeat_stops_for_good_when_its_process_hangs(redis: Redis) -> None:
    hanging, ended = threading.Event(), threading.Event()
    beat = Heartbeat(redis, "w1", READY.encode, life_s=0.9, hangs=hanging.is_set, on_hang=ended.set)
    with beat:
        wait_until(lambda: workers_alive(redis) == [READY])
        hanging.set()
        assert ended.wait(10)
        assert workers_alive(redis) == []


def test_a_worker_that_only_seemed_dead_is_back_with_its_next_beat(redis: Redis) -> None:
    beat = Heartbeat(redis, "w1", READY.encode)
    beat.beat()
    redis.delete(keys.worker("w1"))
    assert workers_alive(redis) == []
    beat.beat()
    assert workers_alive(redis) == [READY]


def test_a_changed_status_shows_at_the_next_beat(redis: Redis) -> None:
    states = iter([b"not a status", READY.encode()])
    beat = Heartbeat(redis, "w1", lambda: next(states))
    beat.beat()
    assert workers_alive(redis) == []
    beat.beat()
    assert workers_alive(redis) == [READY]


def test_the_roots_of_a_worker_that_was_lost_are_remembered_and_those_of_one_that_stopped_are_not(
    redis: Redis,
) -> None:
    Heartbeat(redis, "lost", READY.encode, roots=lambda: ["root-a"]).beat()
    with Heartbeat(redis, "stopped", READY.encode, roots=lambda: ["root-b"]) as stopped:
        stopped.beat()
        assert roots_served_lately(redis) == {"root-a", "root-b"}
    assert roots_served_lately(redis) == {"root-a"}


def test_a_worker_that_an_error_ends_is_expected_back(redis: Redis) -> None:
    with (
        suppress(ZeroDivisionError),
        Heartbeat(redis, "failed", READY.encode, roots=lambda: ["root-a"]) as beat,
    ):
        beat.beat()
        raise ZeroDivisionError
    assert workers_alive(redis) == []
    assert roots_served_lately(redis) == {"root-a"}


def test_a_root_that_a_worker_stops_serving_is_forgotten_with_its_next_beat(redis: Redis) -> None:
    roots = ["root-a", "root-b"]
    beat = Heartbeat(redis, "w1", READY.encode, roots=lambda: roots)
    beat.beat()
    roots.remove("root-a")
    beat.beat()
    assert roots_served_lately(redis) == {"root-b"}


def test_a_worker_that_was_lost_long_ago_is_not_waited_for(redis: Redis) -> None:
    redis.zadd(keys.SERVED_ROOTS, {"root-a": time.time() - SERVED_LATELY_S - 1})
    assert roots_served_lately(redis) == frozenset()
