"""How far the worker sees into the stream, and who is served from what it sees."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from redis import Redis
from redis.exceptions import RedisError
from torch.utils.hooks import RemovableHandle

from inference.engine import in_flight
from inference.queueing import keys
from tests.integration.inference.queueing.requests import depth, replies_in
from tests.integration.inference.worker.asking import assert_right, request_for
from tests.integration.inference.worker.desk import TIMING, Desk
from tests.unit.tiny import tiny_texts
from tests.unit.tiny_world import TinyWorld


def narrow(redis_url: str, world: TinyWorld, *, backlog_rows: int) -> Desk:
    """A desk whose worker sees only so many rows, and computes two at a time."""
    return Desk(redis_url, world, rows=2, timing=replace(TIMING, backlog_rows=backlog_rows))


def test_requests_beyond_the_backlog_stay_in_the_queue(
    redis: Redis, redis_url: str, world: TinyWorld
) -> None:
    desk = narrow(redis_url, world, backlog_rows=10)
    for text in tiny_texts(40):
        desk.queue.submit(request_for(world.hplms[0], text))
    desk.step()
    assert len(desk.consumer.held) <= 10
    assert desk.queue.depth() >= 38


def test_requests_of_many_rows_fill_the_window_too(redis: Redis, redis_url: str, world: TinyWorld) -> None:
    desk = narrow(redis_url, world, backlog_rows=10)
    for _ in range(10):
        desk.queue.submit(request_for(world.hplms[0], *tiny_texts(20)))
    desk.step()
    assert len(desk.consumer.held) == 2


def test_all_that_was_seen_is_answered_before_the_worker_stops(
    redis: Redis, redis_url: str, world: TinyWorld
) -> None:
    desk = narrow(redis_url, world, backlog_rows=20)
    for text in tiny_texts(40):
        desk.queue.submit(request_for(world.hplms[0], text))
    desk.step()
    held = len(desk.consumer.held)
    assert held > 10
    while desk.step(taking=False):
        continue
    assert desk.consumer.held == frozenset()
    assert desk.queue.depth() == 40 - len(replies_in(redis))
    assert depth(redis) >= 20 - 2


def while_it_computes(desk: Desk, world: TinyWorld, act: Callable[[], object]) -> RemovableHandle:
    """Do something whenever a batch's first layer is computed, until the handle is removed. The next batch is
    chosen after that, once a batch has said how little time it takes to begin one."""

    def hook(*_: object) -> None:
        act()

    upper = desk.catalogue.executors[world.root_digest].root.upper
    return upper.layers[0].register_forward_pre_hook(hook)


def test_a_queue_that_fails_while_a_batch_computes_does_not_fail_the_batch(
    redis: Redis, redis_url: str, world: TinyWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_flight, "MARGIN", 0.0)
    desk = Desk(redis_url, world, rows=1)
    desk.ask(request_for(world.hplms[0], "a boat"))
    request = request_for(world.hplms[0], "the river")
    desk.queue.submit(request)
    stream = keys.requests(world.root_digest)

    def spoil() -> None:
        redis.rename(stream, "aside")
        redis.set(stream, "no stream")

    hook = while_it_computes(desk, world, spoil)
    with pytest.raises(RedisError):
        desk.step()
    hook.remove()
    redis.rename("aside", stream)
    desk.step()
    _, reply = replies_in(redis)
    assert_right(world, request, reply)
    assert desk.catalogue.counters.failed == 0
