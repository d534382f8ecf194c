"""The web server as the launcher starts it, while the queue is full."""

import threading

import httpx
import pytest
import redis

from inference.queueing.transport import tenant_capacity
from tests.integration.inference.api.conftest import WEB_CAPACITY, Served
from tests.integration.inference.queueing.requests import depth
from tests.integration.inference.web_server import WebServer
from tests.processes import InferenceWorker, wait_until

pytestmark = pytest.mark.django_db
OWN = tenant_capacity(WEB_CAPACITY)
"""So many requests of one tenant may wait."""


def test_a_full_queue_refuses_the_next_request_while_everything_else_still_answers(
    server: WebServer, busy: InferenceWorker, served: Served, redis_url: str
) -> None:
    answers: list[httpx.Response] = []
    with httpx.Client(base_url=server.url, trust_env=False, timeout=20) as client:

        def infer() -> httpx.Response:
            body = {"model": "mood", "inputs": ["a good stone"]}
            return client.post("/api/v1/infer", json=body, headers={"Authorization": f"Bearer {served.key}"})

        waiting = [threading.Thread(target=lambda: answers.append(infer())) for _ in range(OWN)]
        for thread in waiting:
            thread.start()
        with redis.Redis.from_url(redis_url) as queue:
            wait_until(lambda: depth(queue) == OWN)
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
