"""Server-sent event streams of jobs: a session may hold so many, few are opened at a time, and all end when
the web server stops."""

import asyncio
import re
import signal
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from types import FrameType
from typing import Any, Final

from hmi_site.http.request_body import BODY, Body
from tenants.base.upload_concurrency import MAX_CONCURRENT_STREAMS, ConcurrencyLimit, too_many_streams

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

STREAM_PATHS = re.compile(r"/t/[^/]+/jobs/[^/]+/live/")
MAX_OPENING: Final = 2
"""Streams that are opened at a time. Each occupies a thread until its first event, so a client that asks for
hundreds at once would delay all other requests."""


class EventStreams:
    """Passes all requests on to ``application``, event streams a few at a time.

    ``close_streams`` is called when the process is asked to stop: the web server waits for open responses.
    """

    def __init__(self, application: Application, *, close_streams: Callable[[], None]) -> None:
        self._application, self._close_streams = application, close_streams
        self._opening = asyncio.Semaphore(MAX_OPENING)
        self._of_session = ConcurrencyLimit(MAX_CONCURRENT_STREAMS)
        self._has_stop_handler = False

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if not _is_stream(scope):
            await self._application(scope, receive, send)
            return
        if not self._has_stop_handler:
            self._has_stop_handler = True
            call_on_stop(asyncio.get_running_loop(), self._close_streams)
        session = b"".join(value for name, value in scope["headers"] if name == b"cookie").decode("latin-1")
        if not self._of_session.acquire(session):  # refused before anything is read from the database
            scope = {**scope, BODY: Body(error=too_many_streams())}
            await self._application(scope, receive, send)
            return
        try:
            await self._open(scope, receive, send)
        finally:
            self._of_session.release(session)

    async def _open(self, scope: Message, receive: Receive, send: Send) -> None:
        async with AsyncExitStack() as opening:
            await opening.enter_async_context(self._opening)

            async def send_on(message: Message) -> None:
                await opening.aclose()
                await send(message)

            await self._application(scope, receive, send_on)


def _is_stream(scope: Message) -> bool:
    return (
        scope["type"] == "http"
        and scope["method"] == "GET"
        and STREAM_PATHS.fullmatch(scope["path"]) is not None
    )


def close_streams() -> None:
    """Close all open event streams."""
    from frontend.job_stream import poller  # once Django is set up

    poller.close()


def call_on_stop(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    """Call ``callback`` in the main thread's loop at SIGINT and SIGTERM, besides the present handlers."""
    for number in (signal.SIGINT, signal.SIGTERM):
        previous = signal.getsignal(number)

        def handle(number: int, frame: FrameType | None, previous: Any = previous) -> None:
            loop.call_soon_threadsafe(callback)
            if callable(previous):
                previous(number, frame)

        signal.signal(number, handle)
