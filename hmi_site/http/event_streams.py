"""Streams that stay open go to Django's own ASGI handler: it holds none of the web server's threads."""

import asyncio
import re
import signal
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any

from hmi_site.http.request_body import BODY, take_body

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Application = Callable[[dict[str, Any], Callable[..., Any], Callable[..., Any]], Awaitable[None]]

STREAMS = re.compile(r"/t/[^/]+/jobs/[^/]+/live/")


class EventStreams:
    """One application for the addresses of streams, and one for everything else. ``end_streams`` is called
    when the web server is told to stop: it waits for all its answers, and streams would keep it."""

    def __init__(self, streams: Application, *, others: Application, end_streams: Callable[[], None]) -> None:
        self._streams, self._others, self._end_streams = streams, others, end_streams
        self._hears_of_the_end = False

    async def __call__(
        self, scope: dict[str, Any], receive: Callable[..., Any], send: Callable[..., Any]
    ) -> None:
        if not _opens_a_stream(scope):
            await self._others(scope, receive, send)
            return
        body = await take_body(scope, receive)
        if body.goes_on or body.refusal:
            await self._others({**scope, BODY: body}, receive, send)
            return
        if not self._hears_of_the_end:
            self._hears_of_the_end = True
            on_stop(asyncio.get_running_loop(), self._end_streams)
        await self._streams(scope, without_body(receive), send)


def _opens_a_stream(scope: dict[str, Any]) -> bool:
    return (
        scope["type"] == "http" and scope["method"] == "GET" and STREAMS.fullmatch(scope["path"]) is not None
    )


def without_body(receive: Receive) -> Receive:
    """What a request receives whose body was read already: that it has none, and when the caller has hung
    up."""
    told = False

    async def receive_next() -> Message:
        nonlocal told
        if not told:
            told = True
            return {"type": "http.request", "body": b"", "more_body": False}
        while (message := await receive())["type"] != "http.disconnect":
            continue
        return message

    return receive_next


def end_streams() -> None:
    """End all that are open."""
    from frontend.live import watch  # once Django is set up

    watch.close()


def on_stop(loop: asyncio.AbstractEventLoop, react: Callable[[], None]) -> None:
    """Have this called in the loop, which is the main thread's, when the process is asked to stop; whatever
    else hears of that goes on to."""
    for number in (signal.SIGINT, signal.SIGTERM):
        before = signal.getsignal(number)

        def handle(number: int, frame: FrameType | None, before: Any = before) -> None:
            loop.call_soon_threadsafe(react)
            if callable(before):
                before(number, frame)

        signal.signal(number, handle)
