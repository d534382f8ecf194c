"""How event streams are opened, and that they hear of the end of the web server."""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from hmi_site.http.event_streams import MAX_OPENING, EventStreams
from hmi_site.http.request_body import BODY
from tenants.base.upload_concurrency import MAX_CONCURRENT_STREAMS

LIVE = "/t/acme/jobs/6f2d4c1e-0000-4000-8000-000000000000/live/"


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """What hears of signals is as before after the test."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


class SlowApplication:
    """Begins its answers when it may, and ends none; counts requests by path, and notes whether streams were
    ended."""

    def __init__(self) -> None:
        self.begun, self.refused, self.seen = Counter[str](), 0, list[str]()
        self.may_answer = asyncio.Event()
        self.streams = EventStreams(self._answer, close_streams=lambda: self.seen.append("ended"))

    async def ask(self, path: str, kind: str = "http", method: str = "GET", session: str = "") -> None:
        """Send a request there."""
        headers = [(b"cookie", f"sessionid={session}".encode())]
        scope = {"type": kind, "path": path, "method": method, "headers": headers}
        await self.streams(scope, _nothing, _nothing)

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        if BODY in scope:
            assert scope[BODY].error.code == "queue_full"
            self.refused += 1
            return
        self.begun[scope["path"]] += 1
        await self.may_answer.wait()
        await send({"type": "http.response.start"})
        await asyncio.Event().wait()


async def _nothing(*_: object) -> Any:
    """No message comes or goes."""


async def _all_wait() -> None:
    for _ in range(200):
        await asyncio.sleep(0)


def test_few_streams_are_opened_at_a_time_and_open_ones_delay_no_other() -> None:
    async def ask() -> None:
        application = SlowApplication()
        others = ["/", "/t/acme/jobs/", f"{LIVE}more", "/t/a/b/jobs/1/live/"]
        asked = [asyncio.create_task(application.ask(path)) for path in [LIVE] * 5 * MAX_OPENING + others]
        asked += [asyncio.create_task(application.ask(LIVE, method="POST"))]
        await _all_wait()
        assert application.begun[LIVE] == MAX_OPENING + 1, "the POST is no stream"
        assert all(application.begun[path] == 1 for path in others)
        application.may_answer.set()
        await _all_wait()
        assert application.begun[LIVE] == 5 * MAX_OPENING + 1
        for task in asked:
            task.cancel()

    asyncio.run(ask())


def test_a_session_that_holds_its_share_of_streams_gets_no_more_and_others_do() -> None:
    async def ask() -> None:
        application = SlowApplication()
        application.may_answer.set()
        sessions = ["greedy"] * (MAX_CONCURRENT_STREAMS + 3) + ["other"]
        asked = [asyncio.create_task(application.ask(LIVE, session=session)) for session in sessions]
        await _all_wait()
        assert (application.begun[LIVE], application.refused) == (MAX_CONCURRENT_STREAMS + 1, 3)
        asked[0].cancel()
        await _all_wait()
        asked.append(asyncio.create_task(application.ask(LIVE, session="greedy")))
        await _all_wait()
        assert (application.begun[LIVE], application.refused) == (MAX_CONCURRENT_STREAMS + 2, 3)
        for task in asked:
            task.cancel()

    asyncio.run(ask())


def test_streams_end_when_the_server_is_told_to_stop_and_the_server_hears_of_it_too() -> None:
    async def stop() -> list[str]:
        application = SlowApplication()
        signal.signal(signal.SIGTERM, lambda *_: application.seen.append("server"))
        asked = [asyncio.create_task(application.ask(LIVE)) for _ in range(2)]
        await _all_wait()
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.05)
        for task in asked:
            task.cancel()
        return application.seen

    assert asyncio.run(stop()) == ["server", "ended"]
