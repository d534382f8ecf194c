"""Which requests are streams, and that these hear of the end of the web server."""

import asyncio
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from hmi_site.http.event_streams import EventStreamRouter, empty_body

LIVE = "/t/acme/jobs/6f2d4c1e-0000-4000-8000-000000000000/live/"


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """What hears of signals is as before after the test."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


class ComputeThreads:
    """Notes which application a request came to, and whether streams were ended."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.application = EventStreamRouter(
            self._lane("stream"), default=self._lane("other"), close_streams=lambda: self.seen.append("ended")
        )

    async def ask(self, path: str, kind: str = "http", method: str = "GET") -> None:
        """Send a request there."""
        await self.application(
            {"type": kind, "path": path, "method": method, "headers": []}, _nothing, _nothing
        )

    def _lane(self, name: str) -> Any:
        async def stage(scope: Any, receive: Any, send: Any) -> None:
            self.seen.append(name)

        return stage


async def _nothing(*_: object) -> None:
    """No message comes or goes."""


def test_only_the_address_of_a_stream_is_one() -> None:
    stages = ComputeThreads()

    async def ask() -> None:
        for path in (LIVE, "/", "/t/acme/jobs/", f"{LIVE}more", "/t/a/b/jobs/1/live/"):
            await stages.ask(path)
        await stages.ask(LIVE, "lifespan")
        await stages.ask(LIVE, method="POST")

    asyncio.run(ask())
    assert stages.seen == ["stream", "other", "other", "other", "other", "other", "other"]


def test_of_a_body_that_never_ends_a_stream_receives_nothing() -> None:
    sent = [{"type": "http.request", "body": b"x", "more_body": True}] * 5 + [{"type": "http.disconnect"}]

    async def receive() -> dict[str, Any]:
        return sent.pop(0)

    async def received() -> list[dict[str, Any]]:
        only = empty_body(receive)
        return [await only(), await only()]

    nothing = {"type": "http.request", "body": b"", "more_body": False}
    assert asyncio.run(received()) == [nothing, {"type": "http.disconnect"}]


def test_streams_end_when_the_server_is_told_to_stop_and_the_server_hears_of_it_too() -> None:
    stages = ComputeThreads()
    signal.signal(signal.SIGTERM, lambda *_: stages.seen.append("server"))

    async def stop() -> None:
        await stages.ask(LIVE)
        await stages.ask(LIVE)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.05)

    asyncio.run(stop())
    assert stages.seen == ["stream", "stream", "server", "ended"]
