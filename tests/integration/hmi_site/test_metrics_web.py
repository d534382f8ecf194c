"""The metrics of the web server as the launcher starts it: one process, whichever of its threads answers."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from pytest_django import Settings

from hmi_site.launcher import children
from hmi_site.launcher.web_server import choose_port
from tests.services import running

TOKEN = "a token that only Prometheus has"
REQUESTS = 200


@pytest.fixture
def web(service_env: dict[str, str], settings: Settings, tmp_path: Path) -> Iterator[httpx.Client]:
    """A web server that has a token, and a client of it."""
    settings.HMI_LOG_ROOT = tmp_path
    port = choose_port("127.0.0.1", 18_900)
    child, ready = children.web(port)
    child.env = {**child.env, **service_env, "HMI_METRICS_TOKEN": TOKEN, "HMI_DB_POOL": "4"}
    address = f"http://{port.address}:{port.number}"
    with (
        port.listener,
        running(child, ready),
        httpx.Client(base_url=address, trust_env=False, timeout=20) as client,
    ):
        yield client


def answered(web: httpx.Client, view: str) -> float:
    """How many requests for the view a scrape tells of."""
    scrape = web.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    assert scrape.status_code == 200
    samples = [s for family in text_string_to_metric_families(scrape.text) for s in family.samples]
    assert any(sample.name == "process_open_fds" for sample in samples)
    labels = {"view": view, "status": "200"}
    return sum(s.value for s in samples if s.name == "hmi_http_requests_total" and s.labels == labels)


def test_no_request_is_missing_from_any_scrape(web: httpx.Client) -> None:
    assert web.get("/metrics").status_code == 404
    before = answered(web, "health-live")
    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(lambda _: web.get("/health/live").status_code, range(REQUESTS)))
    assert statuses == [200] * REQUESTS
    assert [answered(web, "health-live") - before for _ in range(8)] == [REQUESTS] * 8
