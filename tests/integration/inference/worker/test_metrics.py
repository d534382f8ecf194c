"""The inference worker's metrics, scraped over HTTP while a real engine computes."""

import logging
import socket
from collections.abc import Iterator

import httpx
import pytest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.parser import text_string_to_metric_families

from inference.cascade.dispatcher import Level
from inference.engine.rows import Answered, ModelIdentity, Outcome, Row
from inference.serving.environment import SettingError
from inference.serving.exporter import Exporter, ExporterSettings
from inference.serving.metrics import GaugeValues, WorkerMetrics, places_of
from tests.integration.inference.worker.desk import Desk
from tests.processes import wait_until
from tests.services import reserved_port
from tests.unit.tiny_world import TinyHplm, TinyWorld

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


def row_of(desk: Desk, hplm: TinyHplm, text: str) -> Row:
    """A row as the worker's intake makes it."""
    model = ModelIdentity(hplm.tenant, hplm.hplm, hplm.version, hplm.digest)
    route = desk.catalogue.route(model)
    encoding = route.executor.root.tokenizer.encode(text, text if hplm.model.pairs else None)
    return Row("0", encoding.ids, encoding.types, model, route.chain, Level.TABLE, len(encoding))


def computed(desk: Desk, world: TinyWorld, texts: list[str]) -> list[Outcome]:
    """One batch of real outcomes: each text for each model."""
    desk.catalogue.refresh()
    rows = [row_of(desk, hplm, text) for hplm in world.hplms for text in texts]
    [executor] = desk.catalogue.executors.values()
    return list(executor.step(rows))


def metrics_of(desk: Desk) -> WorkerMetrics:
    """As the worker wires them."""
    cache, counters = desk.catalogue.pool, desk.catalogue.counters
    return WorkerMetrics(
        lambda: GaugeValues(len(cache), cache.used_bytes, 0, counters.slot_mismatches),
        place=places_of(lambda: desk.catalogue.manifest),
    )


def test_what_the_engine_computed_is_what_a_scrape_tells(desk: Desk, world: TinyWorld, port: int) -> None:
    metrics = metrics_of(desk)
    nearest = {hplm.plots[0] for hplm in world.hplms}
    names = dict(zip(sorted(nearest), ("acme/medicine", "tiny"), strict=True))
    world.publish(revision=2, tables=names)
    with Exporter(metrics.registry, settings(port)):
        assert scrape(port)["hmi_worker_batch_rows_count{}"] == 0
        outcomes = computed(desk, world, ["the river stone", "a good patient of the city"])
        metrics.batch_computed(outcomes, seconds=0.5, ended=10.5)
        found = scrape(port)
    tokens = sum(len(outcome.row) for outcome in outcomes)
    assert all(isinstance(outcome, Answered) for outcome in outcomes)
    assert found["hmi_worker_rows_total{code=ok}"] == 12
    assert found["hmi_worker_tokens_total{}"] == tokens
    assert sum(value for name, value in found.items() if "worker_fragments_total" in name) == tokens
    places = [name.split("domain=")[1] for name in found if "worker_fragments_total" in name]
    assert {place.split(",")[0] for place in places} == {"acme/medicine", "tiny"}
    assert found["hmi_worker_tenant_rows_total{tenant=acme}"] == 8
    assert found["hmi_worker_resident_models{}"] == 6
    assert found["hmi_worker_resident_model_bytes{}"] == desk.catalogue.pool.used_bytes > 0
    assert found["hmi_worker_stage_seconds_sum{stage=compute}"] > 0
    assert found["hmi_worker_slot_mismatches_total{}"] == 0
    assert found["process_resident_memory_bytes{}"] > 1e6


def test_after_the_worker_nobody_answers(port: int) -> None:
    exporter = Exporter(CollectorRegistry(), settings(port))
    with exporter:
        scrape(port)
    with pytest.raises(httpx.ConnectError):
        scrape(port)
    del exporter  # which would have closed the port by itself


def test_a_taken_port_is_said_and_taken_over_once_it_is_free(
    port: int, caplog: pytest.LogCaptureFixture
) -> None:
    registry = CollectorRegistry()
    Counter("only_here", "Nothing", registry=registry).inc()
    holder = socket.create_server((HOST, port))
    with caplog.at_level(logging.ERROR), Exporter(registry, settings(port), retry_s=0.05):
        [said] = caplog.messages
        assert f"{HOST}:{port}" in said
        assert "HMI_METRICS_PORT" in said
        assert "in use" in said
        holder.close()
        wait_until(lambda: answers(port))
        assert scrape(port) == {"only_here_total{}": 1.0}
    assert len(caplog.messages) == 1


def test_who_leaves_while_the_port_is_taken_leaves_at_once(port: int) -> None:
    with (
        socket.create_server((HOST, port)),
        Exporter(CollectorRegistry(), settings(port), retry_s=3600.0),
    ):
        pass


def test_without_a_port_nothing_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket.socket, "bind", lambda *_: pytest.fail("something listens"))
    with Exporter(CollectorRegistry(), ExporterSettings.from_env({})):
        pass


def test_settings_have_defaults_and_are_read() -> None:
    assert ExporterSettings.from_env({}) == ExporterSettings(host=HOST, port=0)
    env = {"HMI_METRICS_PORT": "9100", "HMI_METRICS_HOST": "::1"}
    assert ExporterSettings.from_env(env) == ExporterSettings(host="::1", port=9100)


@pytest.mark.parametrize("value", ["-1", "65536", "http", "9 100", "1.5", "9" * 5000, "٣"])
def test_a_port_that_makes_no_sense_is_named(value: str) -> None:
    with pytest.raises(SettingError, match="HMI_METRICS_PORT"):
        ExporterSettings.from_env({"HMI_METRICS_PORT": value})


def answers(port: int) -> bool:
    """Whether somebody listens."""
    try:
        scrape(port)
    except httpx.TransportError:
        return False
    return True
