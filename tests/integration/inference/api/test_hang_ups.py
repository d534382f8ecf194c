"""Callers who hang up, at the web server as the launcher starts it."""

import json
import socket
from urllib.parse import urlsplit

import httpx
import pytest
from redis import Redis

from inference.queueing import keys
from tests.integration.inference.api.conftest import Served
from tests.integration.inference.api.waiting import wait_for_queued
from tests.integration.inference.web_server import WebServer
from tests.processes import InferenceWorker, wait_until

pytestmark = pytest.mark.django_db


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


def test_who_hangs_up_has_cancelled(
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


def test_more_callers_may_hang_up_than_there_are_threads(
    web: str, busy: InferenceWorker, served: Served, queue: Redis
) -> None:
    for _ in range(20):
        connection = call(web, served.key)
        wait_for_queued(queue, 1)
        connection.close()
        wait_for_queued(queue, 0)
    busy.resume()
    with call(web, served.key) as connection:
        assert connection.recv(12) == b"HTTP/1.1 200"


def test_who_hung_up_may_ask_again_with_the_same_key(
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


def test_a_connection_that_is_kept_is_no_hang_up(
    web: str, worker: InferenceWorker, served: Served, queue: Redis
) -> None:
    """And all threads of a web process share one stream of replies."""
    headers = {"Authorization": f"Bearer {served.key}"}
    streams = []
    with httpx.Client(base_url=web, trust_env=False, headers=headers, timeout=60) as client:
        for _ in range(10):
            answer = client.post("/api/v1/infer", json={"model": "mood", "inputs": ["a good stone"]})
            assert answer.status_code == 200
            streams.append(set(queue.keys(keys.REPLIES_PREFIX + "*")))
    assert set.union(*streams) == streams[0]  # one that another process left may expire meanwhile
