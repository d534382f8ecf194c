"""The web server as the launcher starts it, while the queue is full."""

import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import redis
from pytest_django import Settings

from hmi_site.launcher import children
from hmi_site.launcher.ports import choose_port
from inference.queueing import keys
from tests.integration.infer_api.conftest import Served
from tests.processes import InferenceWorker, wait_until
from tests.services import running

CAPACITY, OWN, THREADS = 4, 2, 6
"""One tenant may hold as much of the queue as it leaves free."""


@pytest.fixture
def web(service_env: dict[str, str], served: Served, settings: Settings, tmp_path: Path) -> Iterator[str]:
    """The address of a web server with few threads and a short queue."""
    settings.HMI_WEB_THREADS, settings.HMI_LOG_ROOT = THREADS, tmp_path
    port = choose_port("127.0.0.1", 18_700)
    child, ready = children.web(port.address, port.number)
    own = {"HMI_WEB_THREADS": str(THREADS), "HMI_INFER_CAPACITY": str(CAPACITY), "HMI_DB_POOL": "4"}
    child.env = {**child.env, **service_env, **own}
    with port.claim, running(child, ready):
        yield f"http://{port.address}:{port.number}"


def test_a_full_queue_refuses_the_next_request_while_everything_else_still_answers(
    web: str, busy: InferenceWorker, served: Served, redis_url: str
) -> None:
    answers: list[httpx.Response] = []
    with httpx.Client(base_url=web, trust_env=False, timeout=20) as client:

        def infer() -> httpx.Response:
            body = {"model": "mood", "inputs": ["a good stone"]}
            return client.post("/api/v1/infer", json=body, headers={"Authorization": f"Bearer {served.key}"})

        waiting = [threading.Thread(target=lambda: answers.append(infer())) for _ in range(OWN)]
        for thread in waiting:
            thread.start()
        with redis.Redis.from_url(redis_url) as queue:
            wait_until(lambda: queue.xlen(keys.REQUESTS) == OWN)
        refused = infer()
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "queue_full")
        assert int(refused.headers["Retry-After"]) > 0
        assert client.get("/health/live").status_code == 200
        assert client.get("/login/").status_code == 200
        assert answers == []
        busy.resume()
        for thread in waiting:
            thread.join()
    assert [answer.status_code for answer in answers] == [200] * OWN
