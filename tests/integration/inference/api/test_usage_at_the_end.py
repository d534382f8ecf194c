"""What a web server has counted when it is asked to stop."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from pytest_django import Settings

from hmi_site.embedded.process import Child
from hmi_site.launcher import children
from hmi_site.launcher.web_server import choose_port
from tenants.usage.models import UsageDay
from tests.integration.inference.api.conftest import Served
from tests.processes import InferenceWorker
from tests.services import running

CALLS = 7


@pytest.fixture
def server(
    service_env: dict[str, str], served: Served, settings: Settings, tmp_path: Path
) -> Iterator[tuple[Child, str]]:
    """A web server that writes usage down once a minute."""
    settings.HMI_LOG_ROOT = tmp_path
    port = choose_port("127.0.0.1", 18_740)
    child, ready = children.web(port)
    child.env = {
        **child.env,
        **service_env,
        "DJANGO_SETTINGS_MODULE": "tests.integration.inference.api.slow_usage_settings",
    }
    with port.listener, running(child, ready):
        yield child, f"http://{port.address}:{port.number}"


def test_a_web_server_that_is_stopped_loses_no_request(
    server: tuple[Child, str], worker: InferenceWorker, served: Served
) -> None:
    child, url = server
    key = {"Authorization": f"Bearer {served.key}"}
    before = counted(served)
    with httpx.Client(base_url=url, trust_env=False, timeout=30, headers=key) as client:
        for _ in range(CALLS):
            answer = client.post("/api/v1/infer", json={"model": "mood", "inputs": ["a good stone"]})
            assert answer.status_code == 200
    assert counted(served) == before
    child.stop()
    assert counted(served) == before + CALLS


def counted(served: Served) -> int:
    """Requests of the model that are written down."""
    rows = UsageDay.objects.for_tenant(served.world.tenant).filter(model_name="mood")
    return sum(row.requests for row in rows)
