"""What is asked in the background is computed when nothing else waits."""

import pytest
from redis import Redis

from inference.hplm.plot import VECTORS_FILE
from inference.queueing.consumer import RequestConsumer
from inference.queueing.messages import InferRequest
from inference.queueing.transport import QueueFull, RequestQueue, tenant_capacity
from inference.serving.loop_timing import LoopTiming
from tests.integration.inference.queueing.requests import replies_in
from tests.integration.inference.worker.asking import of_domain, of_tenant, request_for, under_root
from tests.integration.inference.worker.desk import Desk
from tests.integration.inference.worker.held_files import HeldFile
from tests.processes import wait_until
from tests.unit.tiny_world import TinyHplm, TinyWorld

ROWS = 4


@pytest.fixture
def background(redis: Redis) -> RequestQueue:
    return RequestQueue(redis, capacity=10, background=True)


def answered(desk: Desk) -> list[str]:
    return [reply.id for reply in replies_in(desk.redis)]


def served(desk: Desk, background: RequestQueue) -> list[str]:
    """The ids of what is answered, in that order."""
    while desk.step() or desk.queue.depth() or background.depth():
        continue
    return answered(desk)


def many(hplm: TinyHplm, rows: int) -> InferRequest:
    return request_for(hplm, *["the river stone"] * rows)


def test_the_background_takes_no_places_of_others(
    redis: Redis, world: TinyWorld, background: RequestQueue
) -> None:
    hplm, door = of_tenant(world, "acme"), RequestQueue(redis, capacity=2)
    most = tenant_capacity(10)
    for _ in range(most):
        background.submit(many(hplm, 1))
    with pytest.raises(QueueFull):
        background.submit(many(hplm, 1))
    assert door.submit(many(hplm, 1)) == 1
    assert (door.depth(), background.depth()) == (1, most)
    assert door.outstanding() == {hplm.root: {"acme": 1}}


def test_background_requests_of_a_dead_worker_wait_for_all_others(
    redis: Redis, redis_url: str, world: TinyWorld, background: RequestQueue
) -> None:
    left, live = many(of_tenant(world, "acme"), 2), [many(of_tenant(world, "globex"), 1) for _ in range(10)]
    background.submit(left)
    dead = RequestConsumer(redis, "dead")
    dead.follow([left.root])
    assert dead.read_background()
    desk = Desk(redis_url, world, rows=ROWS)
    for request in live:
        desk.queue.submit(request)
    ids = served(desk, background)
    assert sorted(ids) == sorted([left.id, *(request.id for request in live)])
    assert ids[-1] == left.id
    desk.close()


def test_background_requests_for_a_new_revision_do_not_delay_others(
    redis_url: str, world: TinyWorld, background: RequestQueue
) -> None:
    desk = Desk(redis_url, world)
    there, new = under_root(world), of_domain(world)
    world.publish(revision=1, hplms=[there])
    desk.step()
    held = HeldFile(world.folder("plot", new.plots[0]) / VECTORS_FILE)
    world.publish(revision=2, hplms=[there, new])
    behind = [many(new, rows) for rows in (LoopTiming().backlog_rows, 1, 1)]
    for request in behind:
        background.submit(request)
    for _ in range(5):
        desk.server.step()
    assert len(desk.consumer.held) == 1
    live = many(there, 1)
    desk.queue.submit(live)
    wait_until(lambda: desk.server.step() or live.id in answered(desk))
    held.release()
    assert set(served(desk, background)) == {live.id, *(request.id for request in behind)}
    desk.close()


def test_background_batches_are_short_after_a_recent_request(
    redis: Redis, redis_url: str, world: TinyWorld, background: RequestQueue
) -> None:
    """So that whoever asks next waits for little."""
    desk, hplm = Desk(redis_url, world, rows=32), of_tenant(world, "acme")

    def batches_of_32_rows() -> int:
        before = desk.catalogue.counters.batches
        background.submit(request_for(hplm, *["the river stone in the city " * 10] * 32))
        served(desk, background)
        return desk.catalogue.counters.batches - before

    assert batches_of_32_rows() == 1
    desk.ask(many(hplm, 1))
    assert batches_of_32_rows() > 1
    desk.close()
