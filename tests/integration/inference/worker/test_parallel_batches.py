"""A worker whose batches compute side by side answers as one that computes them one after the other."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
import torch
from redis import Redis

from inference.engine import in_flight
from inference.engine.pipeline import Pipeline
from inference.engine.pipelining import Pipelining
from inference.hplm.encoder import UpperLayers
from inference.queueing import keys
from tests.integration.inference.queueing.requests import replies_in
from tests.integration.inference.worker.asking import assert_right, request_for
from tests.integration.inference.worker.desk import Desk
from tests.unit.tiny import tiny_texts
from tests.unit.tiny_world import TinyWorld

WAIT_S = 30.0
SHORT_TEXTS = ["the river", "a stone", "the mill", "a boat", "the cat", "a hat"]
LONG_TEXT, LONG = "the river stone " * 8, 24


@pytest.fixture
def desk(redis: Redis, redis_url: str, world: TinyWorld, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """Two rows compute at a time, each a batch; the next one is chosen late."""
    monkeypatch.setattr(in_flight, "MARGIN", 0.0)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    pipeline = Pipeline(Pipelining(parallel_batches=2))
    desk = Desk(redis_url, world, rows=1, pipeline=pipeline)
    yield desk
    pipeline.close()
    desk.close()
    torch.set_num_threads(before)


def before_each_batch(desk: Desk, world: TinyWorld, act: Callable[[int], object]) -> UpperLayers:
    """Do something in the thread that computes, before a batch's first layer: ``act`` is told of how many
    tokens it is. The next batch is chosen later, before the last layer."""
    desk.ask(request_for(world.hplms[0], "a boat"))
    upper = desk.catalogue.executors[world.root_digest].root.upper
    upper.layers[0].register_forward_pre_hook(lambda _, given: act(given[0].shape[0]))
    return upper


def test_every_request_is_answered_once_and_right(desk: Desk, redis: Redis, world: TinyWorld) -> None:
    requests = [request_for(world.hplms[n % 6], *tiny_texts(1 + n % 5, seed=n)) for n in range(30)]
    for request, reply in zip(requests, desk.ask(*requests), strict=True):
        assert_right(world, request, reply)
    assert Counter(reply.id for reply in replies_in(redis)) == Counter(request.id for request in requests)
    assert desk.consumer.held == frozenset()
    assert desk.catalogue.counters.slot_mismatches == 0
    desk.catalogue.pool.check_integrity()


def test_short_batch_does_not_wait_for_a_long_one(desk: Desk, redis: Redis, world: TinyWorld) -> None:
    held, go_on = threading.Event(), threading.Event()

    def hold_long_ones(tokens: int) -> None:
        if tokens >= LONG:
            held.set()
            assert go_on.wait(WAIT_S)

    before_each_batch(desk, world, hold_long_ones)
    slow, *quick = (request_for(world.hplms[0], text) for text in (LONG_TEXT, *SHORT_TEXTS[:3]))
    for request in (slow, *quick):
        desk.queue.submit(request)
    desk.step()
    turns = desk.server.iterations
    for _ in quick[1:]:
        desk.step()
    assert held.wait(WAIT_S)
    assert {reply.id for reply in replies_in(redis)} >= {request.id for request in quick}
    assert slow.id not in {reply.id for reply in replies_in(redis)}
    assert desk.server.iterations == turns, "a batch that hangs is not seen while others go on"
    go_on.set()
    desk.serve()
    assert slow.id in {reply.id for reply in replies_in(redis)}
    assert desk.server.iterations > turns


def test_request_that_comes_while_a_batch_computes_is_computed_beside_it(
    desk: Desk, redis: Redis, world: TinyWorld
) -> None:
    early, late = (request_for(world.hplms[0], text) for text in SHORT_TEXTS[:2])
    submitted, both = threading.Event(), threading.Barrier(2)

    def meet(_: int) -> None:
        if not submitted.is_set():
            submitted.set()
            desk.queue.submit(late)
        both.wait(WAIT_S)

    before_each_batch(desk, world, meet)
    desk.queue.submit(early)
    desk.serve()
    replies = {reply.id: reply for reply in replies_in(redis)}
    for request in (early, late):
        assert_right(world, request, replies[request.id])


@pytest.mark.parametrize(("rows", "batches"), [(4, [4]), (9, [4, 5]), (64, [32, 32])])
def test_waiting_rows_are_shared_out_over_parallel_batches(
    redis: Redis, redis_url: str, world: TinyWorld, rows: int, batches: list[int]
) -> None:
    pipeline = Pipeline(Pipelining(parallel_batches=2))
    desk, sizes = Desk(redis_url, world, pipeline=pipeline), list[int]()
    desk.ask(request_for(world.hplms[0], "a boat"))
    first = desk.catalogue.executors[world.root_digest].root.upper.layers[0]
    first.register_forward_pre_hook(lambda _, given: sizes.append(len(given[1].lengths)))
    desk.ask(request_for(world.hplms[0], *["the river"] * rows))
    assert sorted(sizes) == batches
    pipeline.close()
    desk.close()


def test_abandoned_request_is_computed_while_no_other_is(desk: Desk, redis: Redis, world: TinyWorld) -> None:
    computing, seen, lock = [0], list[tuple[bool, int]](), threading.Lock()
    first_two = threading.Barrier(2)

    def enter(tokens: int) -> None:
        with lock:
            computing[0] += 1
            seen.append((tokens >= LONG, computing[0]))
            is_of_them = len(seen) <= 2
        if is_of_them:
            first_two.wait(WAIT_S)

    def leave(*_: object) -> None:
        with lock:
            computing[0] -= 1
            seen.append((False, computing[0]))

    before_each_batch(desk, world, enter).layers[-1].register_forward_hook(leave)
    waiting = [request_for(world.hplms[n], text) for n, text in enumerate(SHORT_TEXTS)]
    left = request_for(world.hplms[0], *[LONG_TEXT] * 3)
    for request in waiting:
        desk.queue.submit(request)
    desk.step()
    desk.queue.submit(left)
    redis.xreadgroup(keys.GROUP, "dead", {keys.requests(world.root_digest): ">"})
    desk.serve()
    first = seen.index((True, 1))
    assert seen[first : first + 6] == [(True, 1), (False, 0)] * 3
    assert max(count for _, count in seen) == 2
    replies = {reply.id: reply for reply in replies_in(redis)}
    for request in (left, *waiting):
        assert_right(world, request, replies[request.id])
