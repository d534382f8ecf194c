"""The trace of an inference worker that runs as it is shipped."""

from collections.abc import Callable

import pytest
from redis import Redis

from inference.queueing.transport import RequestQueue
from inference.queueing.worker_commands import TRACE, ask
from tests.integration.inference.queueing.requests import replies_in
from tests.integration.inference.worker.asking import request_for
from tests.processes import PATIENCE_S, InferenceWorker, wait_until
from tests.unit.inference.engine.chrome_traces import lanes_of
from tests.unit.tiny_world import TinyWorld

pytestmark = pytest.mark.slow


def test_a_worker_tells_what_its_pipeline_did(
    redis: Redis, world: TinyWorld, start_worker: Callable[..., InferenceWorker]
) -> None:
    worker = start_worker(HMI_BATCH_ROWS="2").wait_until_ready()
    queue = RequestQueue(redis, capacity=100)
    for hplm in world.hplms:
        queue.submit(request_for(hplm, "the river", "stone"))
    wait_until(lambda: len(replies_in(redis)) == len(world.hplms), worker)
    told = ask(redis, worker.name, TRACE, within_s=PATIENCE_S)
    assert told is not None
    stages = lanes_of(told, process=worker.name)
    side_by_side = [stages[name] for name in stages if name.startswith("compute")]
    computed = {event["args"]["batch"] for stage in side_by_side for event in stage}
    assert len(computed) >= len(world.hplms)
    for stage in ("retrieval", "adapters"):
        assert {event["args"]["batch"] for event in stages[stage]} == computed
    layers = [event for event in stages["adapters"] if event["name"].startswith("layer")]
    assert len(layers) == world.root.config.upper * len(computed)


def test_a_worker_answers_while_it_has_done_nothing(
    redis: Redis, start_worker: Callable[..., InferenceWorker]
) -> None:
    worker = start_worker().wait_until_ready()
    told = ask(redis, worker.name, TRACE, within_s=PATIENCE_S)
    assert told is not None
    assert lanes_of(told, process=worker.name) == {"retrieval": [], "adapters": [], "compute": []}
