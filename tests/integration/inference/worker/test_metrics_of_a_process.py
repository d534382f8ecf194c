"""The metrics of an inference worker that runs as it is shipped."""

from collections.abc import Callable, Iterator

import pytest
from redis import Redis

from inference.queueing.transport import RequestQueue
from tests.integration.inference.queueing.requests import replies_in
from tests.integration.inference.worker.asking import request_for
from tests.integration.inference.worker.test_metrics import HOST, scrape
from tests.processes import InferenceWorker, wait_until
from tests.services import reserved_port
from tests.unit.tiny_world import TinyWorld

pytestmark = pytest.mark.slow


@pytest.fixture
def port() -> Iterator[int]:
    """A port that no other test takes meanwhile."""
    with reserved_port(HOST) as number:
        yield number


def test_a_worker_tells_what_it_has_answered(
    redis: Redis, world: TinyWorld, start_worker: Callable[..., InferenceWorker], port: int
) -> None:
    worker = start_worker(HMI_METRICS_PORT=str(port)).wait_until_ready()
    queue = RequestQueue(redis, capacity=100)
    for hplm in world.hplms:
        queue.submit(request_for(hplm, "the river", "stone"))
    queue.submit(request_for(world.hplms[0], "too late", seconds=-1.0))
    wait_until(lambda: len(replies_in(redis)) == 7, worker)
    found = scrape(port)
    assert found["hmi_worker_requests_total{code=ok}"] == 6
    assert found["hmi_worker_requests_total{code=deadline_exceeded}"] == 1
    assert found["hmi_worker_rows_total{code=ok}"] == 12
    assert found["hmi_worker_adapter_load_seconds_count{}"] == found["hmi_worker_resident_models{}"] == 6
    assert found["hmi_worker_backlog_rows{}"] == 0


def test_a_port_that_makes_no_sense_stops_the_start(start_worker: Callable[..., InferenceWorker]) -> None:
    worker = start_worker(HMI_METRICS_PORT="http")
    assert worker.process.wait(120) == 2
    assert "HMI_METRICS_PORT" in worker.output()


@pytest.mark.parametrize("name", ["HMI_LOG_FORMAT", "HMI_LOG_LEVEL"])
def test_a_way_to_log_that_there_is_not_stops_the_start(
    start_worker: Callable[..., InferenceWorker], name: str
) -> None:
    worker = start_worker(**{name: "loud"})
    assert worker.process.wait(120) == 2
    assert f"{name}='loud' must be one of" in worker.output()
