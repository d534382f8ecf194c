"""The inference worker's metrics over HTTP, and the trace of its pipeline."""

import logging
import socket
from collections.abc import Callable, Iterator

import httpx
import pytest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.parser import text_string_to_metric_families
from redis import Redis

from inference.queueing.transport import RequestQueue
from inference.queueing.worker_commands import TRACE, ask
from inference.serving.environment import SettingError
from inference.serving.exporter import Exporter, ExporterSettings
from tests.integration.inference.queueing.requests import replies_in
from tests.integration.inference.worker.asking import request_for
from tests.processes import PATIENCE_S, InferenceWorker, wait_until
from tests.services import reserved_port
from tests.unit.inference.engine.chrome_traces import lanes_of
from tests.unit.tiny_world import TinyWorld

HOST = "127.0.0.1"


@pytest.fixture
def port() -> Iterator[int]:
    """A port that no other test takes meanwhile."""
    with reserved_port(HOST) as number:
        yield number


def settings(port: int) -> ExporterSettings:
    return ExporterSettings(host=HOST, port=port)


def scrape(port: int) -> dict[str, float]:
    """Every sample as it is written, with its labels in order."""
    answer = httpx.get(f"http://{HOST}:{port}/metrics", trust_env=False, timeout=60)
    assert answer.status_code == 200
    found = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}"] = sample.value
    return found


def test_closed_exporter_does_not_listen(port: int) -> None:
    exporter = Exporter(CollectorRegistry(), settings(port))
    with exporter:
        scrape(port)
    with pytest.raises(httpx.ConnectError):
        scrape(port)
    del exporter  # which would have closed the port by itself


def test_taken_port_is_logged_and_used_once_it_is_free(port: int, caplog: pytest.LogCaptureFixture) -> None:
    registry = CollectorRegistry()
    Counter("only_here", "Nothing", registry=registry).inc()
    holder = socket.create_server((HOST, port))
    with caplog.at_level(logging.ERROR), Exporter(registry, settings(port), retry_s=0.05):
        [said] = caplog.messages
        assert f"{HOST}:{port}" in said
        assert "HMI_METRICS_ADDRESS" in said
        assert "in use" in said
        holder.close()
        wait_until(lambda: answers(port))
        assert scrape(port) == {"only_here_total{}": 1.0}
    assert len(caplog.messages) == 1


def test_exporter_without_a_port_does_not_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket.socket, "bind", lambda *_: pytest.fail("something listens"))
    with Exporter(CollectorRegistry(), ExporterSettings.from_env({})):
        pass


def test_settings_have_defaults_and_are_read() -> None:
    assert ExporterSettings.from_env({}) == ExporterSettings(host=HOST, port=0)
    for text, host in (("9100", HOST), ("0.0.0.0:9100", "0.0.0.0"), ("[::1]:9100", "::1")):
        found = ExporterSettings.from_env({"HMI_METRICS_ADDRESS": text})
        assert found == ExporterSettings(host=host, port=9100)


@pytest.mark.parametrize("value", ["-1", "65536", "9" * 5000, "٣", "localhost", "127.0.0.1:"])
def test_invalid_address_is_refused_with_its_setting(value: str) -> None:
    with pytest.raises(SettingError, match="HMI_METRICS_ADDRESS"):
        ExporterSettings.from_env({"HMI_METRICS_ADDRESS": value})


def answers(port: int) -> bool:
    """Whether somebody listens."""
    try:
        scrape(port)
    except httpx.TransportError:
        return False
    return True


def test_metrics_of_a_worker_count_its_answers_and_its_trace_has_each_stage_of_its_batches(
    redis: Redis, world: TinyWorld, start_worker: Callable[..., InferenceWorker], port: int
) -> None:
    worker = start_worker(HMI_METRICS_ADDRESS=str(port), HMI_BATCH_ROWS="2").wait_until_ready()
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
