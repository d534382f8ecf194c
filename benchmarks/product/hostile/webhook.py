"""A webhook of the well-behaved tenant, and its receiver on this machine."""

import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Any, Final, Self

import httpx

POLL_S: Final = 0.05


class Webhook:
    """It is made when the block begins; ``http`` has the tenant's key."""

    def __init__(self, http: httpx.Client) -> None:
        self._http, self._path = http, ""
        self._sent, self._received = 0, 0
        self._asked_at, self._came_at = 0.0, 0.0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{self._server.server_address[1]}/"
        made = self._http.post("/api/v1/webhooks", json={"url": url, "kinds": ["job.failed"]})
        made.raise_for_status()
        self._path = f"/api/v1/webhooks/{made.json()['id']}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()

    @property
    def last_s(self) -> float:
        """How long the last event took from being asked for until it came; 0 where it did not."""
        return max(0.0, self._came_at - self._asked_at)

    def send(self) -> None:
        """Ask for a test event; one that cannot be asked for does not arrive."""
        self._sent += 1
        self._asked_at = time.monotonic()
        with suppress(httpx.HTTPError):
            self._http.post(f"{self._path}/test")

    def arrives(self, *, within_s: float) -> bool:
        """Whether all that was asked for has arrived; waits so long for it. What arrived too late for one
        wait counts for none after it."""
        latest = time.monotonic() + within_s
        while self._received < self._sent and time.monotonic() < latest:
            time.sleep(POLL_S)
        is_there = self._received >= self._sent
        self._sent = self._received
        return is_there

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                self.send_response(204)
                self.end_headers()
                webhook._came_at = time.monotonic()
                webhook._received += 1

            def log_message(self, *_: Any) -> None:
                """Silence."""

        return Handler
