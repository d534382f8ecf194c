"""The demo's traffic, sent to a server that has not heard of a new version yet."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import ClassVar

import pytest
from rich.console import Console

from demo.traffic import ModelTraffic, TrafficResult, send_traffic

MODEL = ModelTraffic("acme/moods", "key", ["one", "two", "three", "four"])


class Server(BaseHTTPRequestHandler):
    """Refuses the first requests as the API does while a version is not served yet, and keeps the bodies."""

    bodies: ClassVar[list[dict[str, object]]] = []
    refusals: ClassVar[list[bool]] = []
    code: ClassVar[str] = "model_not_ready"

    def do_POST(self) -> None:
        self.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        refused = bool(self.refusals) and self.refusals.pop()
        body: dict[str, object] = {"error": {"code": self.code}} if refused else {"results": [{}, {}]}
        self.send_response(409 if refused else 200)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Quietly."""


@contextmanager
def serving(*, refusals: int, code: str = "model_not_ready") -> Iterator[str]:
    Server.refusals[:] = [True] * refusals
    Server.bodies[:], Server.code = [], code
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_traffic_waits_until_a_new_version_is_served() -> None:
    with serving(refusals=3) as url:
        result = send_traffic(url, [MODEL], 2, Console(quiet=True))
    assert (len(result.answers), result.failures) == (2, [])


def test_another_refusal_is_not_waited_for_and_told() -> None:
    with serving(refusals=2, code="conflict") as url:
        result = send_traffic(url, [MODEL], 2, Console(quiet=True))
    assert len(result.answers) == 1
    assert len(result.failures) == 1
    assert "409" in result.failures[0]


@pytest.mark.parametrize("quality", ["", "exact"])
def test_the_quality_is_sent_and_the_rate_is_of_the_texts(quality: str) -> None:
    with serving(refusals=0) as url:
        result = send_traffic(url, [MODEL], 2, Console(quiet=True), quality=quality)
    assert [body.get("quality", "") for body in Server.bodies[1:]] == [quality] * 2
    assert result.seconds > 0
    assert result.texts_per_s == pytest.approx(4 / result.seconds)


def test_the_rate_of_no_traffic_is_zero() -> None:
    assert TrafficResult().texts_per_s == 0.0
