"""The web server as the launcher starts it: callers who hang up, and a full queue."""

import json
import socket
import threading
from urllib.parse import urlsplit

import httpx
import pytest
from redis import Redis

from inference.queueing import keys
from inference.queueing.transport import tenant_capacity
from tests.integration.inference.api.conftest import WEB_CAPACITY, Served
from tests.integration.inference.api.waiting import wait_for_queued
from tests.integration.inference.queueing.requests import depth
from tests.integration.inference.web_server import WebServer
from tests.processes import InferenceWorker, wait_until

pytestmark = pytest.mark.django_db
OWN = tenant_capacity(WEB_CAPACITY)
"""So many requests of one tenant may wait."""


@pytest.fixture
def web(server: WebServer) -> str:
    """Its address."""
    return server.url


def call(web: str, key: str, **headers: str) -> socket.socket:
    """A connection on which an infer request was sent whole."""
    body = json.dumps({"model": "mood", "inputs": ["a good stone"]}).encode()
    lines = {
        "Host": "127.0.0.1",
        "Authorization": f"Bearer {key}",
        "Content-Length": str(len(body)),
        **headers,
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    address = urlsplit(web)
    connection = socket.create_connection((address.hostname, address.port))
    connection.sendall(f"POST /api/v1/infer HTTP/1.1\r\n{head}\r\n".encode() + body)
    return connection


def test_caller_that_hangs_up_cancels_its_request(
    server: WebServer, busy: InferenceWorker, served: Served, queue: Redis
) -> None:
    web = server.url
    first, second = call(web, served.key), call(web, served.key)
    wait_for_queued(queue, 2)
    first.close()
    wait_for_queued(queue, 1)
    assert [int(count) for count in queue.hvals(keys.OUTSTANDING)] == [1]
    busy.resume()
    assert second.recv(12) == b"HTTP/1.1 200"
    second.close()
    wait_until(lambda: "code=cancelled" in server.log.read_text())
    assert "Traceback" not in server.log.read_text()


def test_caller_that_hung_up_may_ask_again_with_the_same_key(
    web: str, busy: InferenceWorker, served: Served, queue: Redis
) -> None:
    headers = {"Idempotency-Key": "hung-up", "X-Request-Id": "hung-up"}
    connection = call(web, served.key, **headers)
    wait_for_queued(queue, 1)
    connection.close()
    wait_until(lambda: not queue.exists(keys.kept("acme", "hung-up")))
    busy.resume()
    with call(web, served.key, **headers) as connection:
        assert connection.recv(12) == b"HTTP/1.1 200"


def test_a_full_queue_refuses_the_next_request_while_everything_else_still_answers(
    server: WebServer, busy: InferenceWorker, served: Served, queue: Redis
) -> None:
    answers: list[httpx.Response] = []
    with httpx.Client(base_url=server.url, trust_env=False, timeout=20) as client:

        def infer() -> httpx.Response:
            body = {"model": "mood", "inputs": ["a good stone"]}
            return client.post("/api/v1/infer", json=body, headers={"Authorization": f"Bearer {served.key}"})

        waiting = [threading.Thread(target=lambda: answers.append(infer())) for _ in range(OWN)]
        for thread in waiting:
            thread.start()
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
