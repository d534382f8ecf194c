"""A worker that says it is ready has loaded, and run once, what a first request needs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from redis import Redis

from inference.cascade.dispatcher import Level
from inference.queueing.messages import InferReply, InferRequest
from inference.queueing.transport import RequestQueue
from tests.integration.inference.queueing.requests import replies_in
from tests.integration.inference.worker.asking import assert_right, request_for
from tests.processes import InferenceWorker, wait_until
from tests.unit.tiny_world import TinyWorld

UNSEEN = "zebra quixotic zebra river zebra stone quixotic"
KINDS = ("root", "lower", "plot", "hplm")
StartWorker = Callable[..., InferenceWorker]


@contextmanager
def without_files(world: TinyWorld) -> Iterator[None]:
    """What was read or mapped before is all there is."""
    folders = [Path(world.artifact_root) / kind for kind in KINDS]
    for folder in folders:
        folder.rename(folder.with_suffix(".away"))
    try:
        yield
    finally:
        for folder in folders:
            folder.with_suffix(".away").rename(folder)


def answers(redis: Redis, worker: InferenceWorker, requests: list[InferRequest]) -> list[InferReply]:
    queue = RequestQueue(redis, capacity=100)
    for request in requests:
        queue.submit(request)
    wait_until(lambda: len(replies_in(redis)) == len(requests), worker)
    found = {reply.id: reply for reply in replies_in(redis)}
    return [found[request.id] for request in requests]


def test_first_requests_at_either_level_are_answered_without_reading_a_file(
    redis: Redis, world: TinyWorld, start_worker: StartWorker
) -> None:
    worker = start_worker().wait_until_ready()
    ready = worker.told()
    assert ready.resident == len(world.hplms)
    assert (ready.batches, ready.rows, ready.last_batch_at) == (0, 0, 0.0), "warming up is not counted"
    requests = [request_for(hplm, "the river", "a stone") for hplm in world.hplms]
    in_full = [request_for(hplm, UNSEEN, level=Level.FULL) for hplm in world.hplms]
    with without_files(world):
        replies = answers(redis, worker, [*requests, *in_full])
    for request, reply in zip(requests, replies, strict=False):
        assert_right(world, request, reply)
    computed = replies[len(requests) :]
    assert [reply.error for reply in computed if not reply.ok] == []
    assert {output.level for reply in computed for output in reply.outputs} == {Level.FULL}


def test_what_is_published_later_is_loaded_before_it_is_asked_for(
    redis: Redis, world: TinyWorld, start_worker: StartWorker
) -> None:
    first, *others = world.hplms
    world.publish(revision=2, hplms=[first])
    worker = start_worker().wait_until_ready()
    world.publish(revision=3, hplms=[first, *others])
    wait_until(lambda: worker.told().resident == len(world.hplms), worker)
    requests = [request_for(hplm, "the river") for hplm in others]
    with without_files(world):
        replies = answers(redis, worker, requests)
    assert all(reply.ok for reply in replies)
