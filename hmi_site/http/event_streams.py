"""Routes server-sent event streams to Django's own ASGI handler, where they hold no thread."""

import asyncio
import re
import signal
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any

from hmi_site.http.request_body import BODY, receive_body

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Application = Callable[[dict[str, Any], Callable[..., Any], Callable[..., Any]], Awaitable[None]]

STREAM_PATHS = re.compile(r"/t/[^/]+/jobs/[^/]+/live/")


class EventStreamRouter:
    """Calls one application for event streams and ``default`` for all other requests.

    ``close_streams`` is called when the process is asked to stop: the web server waits for open responses.
    """

    def __init__(
        self, streams: Application, *, default: Application, close_streams: Callable[[], None]
    ) -> None:
        self._streams, self._default, self._close_streams = streams, default, close_streams
        self._has_stop_handler = False

    async def __call__(
        self, scope: dict[str, Any], receive: Callable[..., Any], send: Callable[..., Any]
    ) -> None:
        if not _is_stream(scope):
            await self._default(scope, receive, send)
            return
        body = await receive_body(scope, receive)
        if body.more_body or body.error:
            await self._default({**scope, BODY: body}, receive, send)
            return
        if not self._has_stop_handler:
            self._has_stop_handler = True
            call_on_stop(asyncio.get_running_loop(), self._close_streams)
        # Without a body the content type means nothing, and Django may fail on it.
        headers = [(name, value) for name, value in scope["headers"] if name != b"content-type"]
        await self._streams({**scope, "headers": headers}, empty_body(receive), send)


def _is_stream(scope: dict[str, Any]) -> bool:
    return (
        scope["type"] == "http"
        and scope["method"] == "GET"
        and STREAM_PATHS.fullmatch(scope["path"]) is not None
    )


def empty_body(receive: Receive) -> Receive:
    """A ``receive`` for an application whose request has no body: an empty one, then the disconnect."""
    is_body_sent = False

    async def receive_next() -> Message:
        nonlocal is_body_sent
        if not is_body_sent:
            is_body_sent = True
            return {"type": "http.request", "body": b"", "more_body": False}
        while (message := await receive())["type"] != "http.disconnect":
            continue
        return message

    return receive_next


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
