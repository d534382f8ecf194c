"""Workers that come and go under load."""

from collections.abc import Callable

import pytest
from redis import Redis

from inference.queueing import keys
from inference.queueing.messages import InferRequest
from tests.integration.inference.worker.asking import request_for
from tests.integration.inference.worker.references import References
from tests.integration.inference.worker.traffic import Load
from tests.processes import InferenceWorker
from tests.unit.tiny import tiny_texts
from tests.unit.tiny_world import TinyWorld

pytestmark = pytest.mark.slow

Start = Callable[..., InferenceWorker]
TEXTS = tiny_texts(20, longest=40)


def rows_of(worker: InferenceWorker) -> int:
    """How many rows it has computed, as far as it has said."""
    status = worker.status()
    return status.rows if status else 0


def names(redis: Redis, world: TinyWorld) -> list[str]:
    """The workers that have joined the queue."""
    stream = keys.requests(world.root_digest)
    return [consumer["name"].decode() for consumer in redis.xinfo_consumers(stream, keys.GROUP)]


def test_a_worker_that_joins_takes_traffic_and_one_that_leaves_drops_nothing(
    redis: Redis, world: TinyWorld, start_worker: Start
) -> None:
    def make(number: int) -> InferRequest:
        return request_for(world.hplms[number % 6], *(TEXTS[(number + n) % 20] for n in range(8)))

    first = start_worker(HMI_BATCH_ROWS="4").wait_until_ready()
    with Load(redis, make, References(world).assert_right) as load:
        load.until(lambda: load.answered > 20)
        second = start_worker(HMI_BATCH_ROWS="4").wait_until_ready()
        load.until(lambda: rows_of(second) > 0)
        second.pause()  # so that nobody takes over what the first one drops
        load.until(lambda: first.pending() > 0)
        assert first.terminate() == 0
        assert first.pending() == 0
        assert first.status() is None
        assert first.name not in names(redis, world)
        second.resume()
        before = load.answered
        load.until(lambda: load.answered > before + 50)
    assert second.wait_until_ready().pending() == 0
