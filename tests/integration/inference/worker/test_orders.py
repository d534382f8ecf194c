"""What those who run the platform tell workers: to drain, to go on, to look again, what to keep in memory."""

from collections.abc import Callable

import pytest
from redis import Redis

from inference.hplm.root import UPPER_FILE
from inference.queueing.status import WorkerStatus
from inference.queueing.transport import RequestQueue
from inference.queueing.worker_commands import DONE, DRAIN, REFRESH, RESUME, ask
from tests.integration.inference.queueing.requests import replies_in
from tests.integration.inference.worker.asking import assert_right, request_for
from tests.integration.inference.worker.desk import Desk
from tests.integration.inference.worker.test_following import alter
from tests.processes import PATIENCE_S, InferenceWorker, wait_until
from tests.unit.tiny_world import TinyWorld

Start = Callable[..., InferenceWorker]


def states(*workers: InferenceWorker) -> list[str]:
    return [status.state if (status := worker.status()) else "gone" for worker in workers]


def answered(redis: Redis, worker: InferenceWorker, count: int) -> None:
    wait_until(lambda: len(replies_in(redis)) == count, worker)


def test_a_drained_worker_leaves_the_rest_to_others_until_it_is_resumed_and_still_ends(
    redis: Redis, world: TinyWorld, start_worker: Start
) -> None:
    worker = start_worker(HMI_BATCH_ROWS="1").wait_until_ready()
    queue = RequestQueue(redis, capacity=100)
    before = [request_for(world.hplms[n % 6], f"the river {n}") for n in range(12)]
    for request in before:
        queue.submit(request)
    assert ask(redis, worker.name, DRAIN, within_s=PATIENCE_S) == DONE
    wait_until(lambda: states(worker) == ["drained"], worker)
    left = len(before) + 1 - len(replies_in(redis))
    assert worker.pending() == 0
    queue.submit(after := request_for(world.hplms[0], "the stone"))
    other = start_worker().wait_until_ready()
    answered(redis, other, len(before) + 1)
    wait_until(lambda: (now := other.status()) is not None and now.rows == left, other)
    assert worker.told().state == "drained"
    replies = {reply.id: reply for reply in replies_in(redis)}
    for request in [*before, after]:
        assert_right(world, request, replies[request.id])

    other.kill()
    queue.submit(request_for(world.hplms[0], "the river"))
    assert ask(redis, worker.name, RESUME, within_s=PATIENCE_S) == DONE
    assert worker.told().state == "ready"
    answered(redis, worker, len(before) + 2)
    assert ask(redis, worker.name, DRAIN, within_s=PATIENCE_S) == DONE
    assert worker.terminate() == 0


def test_a_refreshed_worker_tries_again_what_it_could_not_load(
    redis: Redis, world: TinyWorld, start_worker: Start
) -> None:
    restore = alter(world, "root", world.root_digest, UPPER_FILE)
    worker = start_worker()
    wait_until(lambda: (now := worker.status()) is not None and "is damaged" in now.last_error, worker)
    status = worker.told()
    assert (status.state, status.roots, status.missing_roots) == ("loading", (), ("tiny",))
    restore()
    assert ask(redis, worker.name, REFRESH, within_s=PATIENCE_S) == DONE
    wait_until(lambda: (now := worker.status()) is not None and now.roots == ("tiny",), worker)
    queue = RequestQueue(redis, capacity=100)
    queue.submit(request_for(world.hplms[0], "the river"))
    answered(redis, worker, 1)


def pinned_status(worker: InferenceWorker, resident: int) -> Callable[[], bool]:
    def there() -> bool:
        status: WorkerStatus | None = worker.status()
        return status is not None and status.pinned_resident == resident

    return there


def test_pinned_hplms_are_in_memory_before_anybody_asks_and_after_a_restart(
    redis: Redis, world: TinyWorld, start_worker: Start
) -> None:
    pinned = [hplm.digest for hplm in world.hplms[:2]]
    world.publish(revision=2, pinned=pinned)
    worker = start_worker().wait_until_ready()
    wait_until(pinned_status(worker, 2), worker)
    worker.kill()
    again = start_worker().wait_until_ready()
    wait_until(pinned_status(again, 2), again)
    world.publish(revision=3, pinned=[])
    wait_until(pinned_status(again, 0), again)


@pytest.fixture
def room_for_two(redis: Redis, redis_url: str, world: TinyWorld) -> Desk:
    """A worker whose memory has room for two of the models of one size."""
    return Desk(redis_url, world, pool_bytes=2 * world.hplms[0].model.bytes)


def test_a_pinned_hplm_stays_while_others_come_and_go(room_for_two: Desk, world: TinyWorld) -> None:
    desk, first = room_for_two, world.hplms[0]
    world.publish(revision=2, pinned=[first.digest])
    wait_until(lambda: desk.step() or desk.catalogue.pinned_resident == 1)
    for hplm in [*world.hplms[1:], *world.hplms[1:]]:
        desk.ask(request_for(hplm, "the river"))
        assert desk.catalogue.pool.holds(first.digest)
    loads = desk.catalogue.pool.loads
    [reply] = desk.ask(request := request_for(first, "the river"))
    assert_right(world, request, reply)
    assert desk.catalogue.pool.loads == loads


def test_more_pinned_than_there_is_room_for_are_answered_all_the_same(
    room_for_two: Desk, world: TinyWorld
) -> None:
    world.publish(revision=2, pinned=[hplm.digest for hplm in world.hplms])
    requests = [request_for(hplm, "the river") for hplm in world.hplms]
    for request, reply in zip(requests, room_for_two.ask(*requests), strict=True):
        assert_right(world, request, reply)
