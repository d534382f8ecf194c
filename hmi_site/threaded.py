"""A WSGI application behind an ASGI server: each request in a thread, as under a WSGI server.

Only by ASGI does the web server tell that a caller has hung up. Django's own ASGI handler would change
threads several times in each request.
"""

import asyncio
import io
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import unquote_to_bytes

from django.http import HttpResponse

from hmi_site.patience import Patience, too_slow
from inference.api.hang_ups import ON_HANG_UP

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

HANG_UP = "http.disconnect"
TOO_SLOW = "hmi.too_slow"
"""Of a message that stands for what a caller did not send, when somebody has waited for it before."""
OF_THE_BODY = {b"content-type": "CONTENT_TYPE", b"content-length": "CONTENT_LENGTH"}


class Threaded:
    """The application, in so many threads; a request that finds none free waits for one. ``at_end`` is called
    when the server stops, after its last request."""

    def __init__(
        self, application: Application, *, threads: int, at_end: Callable[[], object] = lambda: None
    ) -> None:
        self._application, self._at_end = application, at_end
        self._threads = ThreadPoolExecutor(threads, "web")

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._answer(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            raise NotImplementedError(f"no {scope['type']} here")

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await asyncio.get_running_loop().run_in_executor(self._threads, self._at_end)
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: Message, receive: Receive, send: Send) -> None:
        loop = asyncio.get_running_loop()
        caller = Caller(loop, receive, send)
        body = Body(caller, await caller.first())
        try:
            answer = await loop.run_in_executor(
                self._threads, respond, self._application, environment(scope, body, caller), caller
            )
            if not caller.hung_up:
                await caller.send_all(answer)
        finally:
            caller.forget()


async def next_message(receive: Receive, patience: Patience) -> Message:
    """What comes next, or that it came too slowly."""
    try:
        async with asyncio.timeout(patience.left_s):
            return await receive() if patience.left_s else {"type": TOO_SLOW}
    except TimeoutError:
        return {"type": TOO_SLOW}


class Caller:
    """Whoever waits for the answer. The public methods but the last two are for the thread that makes it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, receive: Receive, send: Send) -> None:
        self.hung_up = False
        self._loop, self._receive, self._send = loop, receive, send
        self._watch: asyncio.Task[None] | None = None
        self._patience = Patience()

    def receive(self) -> Message:
        """The next message. Raises ``body_too_slow`` where a caller sends nothing more, or too slowly; no
        OSError, which Django would take for a connection that broke, and pass over in some places.
        """
        if not self._patience.left_s:  # what has come just now comes too late
            raise too_slow()
        coming, begun = asyncio.run_coroutine_threadsafe(self._next(), self._loop), time.monotonic()
        try:
            message = coming.result(self._patience.left_s)
        except TimeoutError:
            coming.cancel()
            raise too_slow() from None
        if message["type"] == TOO_SLOW:
            raise too_slow()
        self._patience.came(len(message.get("body", b"")), after_s=time.monotonic() - begun)
        return message

    async def first(self) -> Message:
        """From within the loop: no thread waits until something comes. What does not come in time is missed
        when it is read."""
        begun = time.monotonic()
        message = await next_message(self._receive, self._patience)
        self._patience.came(len(message.get("body", b"")), after_s=time.monotonic() - begun)
        if message["type"] != TOO_SLOW:
            return message
        self._patience.left_s = 0.0
        return {"type": "http.request", "body": b"", "more_body": True}

    def send(self, messages: list[Message]) -> None:
        """Returns when there is room for more."""
        asyncio.run_coroutine_threadsafe(self.send_all(messages), self._loop).result()

    def on_hang_up(self, react: Callable[[], None]) -> None:
        """Have this called, in another thread, if the caller hangs up before the answer. Once a request, when
        its body is read."""
        self._loop.call_soon_threadsafe(self._start_watch, react)

    async def send_all(self, messages: list[Message]) -> None:
        """From within the loop."""
        for message in messages:
            await self._send(message)

    def forget(self) -> None:
        """There is nothing to wait for any more."""
        if self._watch is not None:
            self._watch.cancel()

    def _start_watch(self, react: Callable[[], None]) -> None:
        if self._watch is None:
            self._watch = self._loop.create_task(self._until_hung_up(react))

    async def _until_hung_up(self, react: Callable[[], None]) -> None:
        while (await self._next())["type"] != HANG_UP:
            continue
        self.hung_up = True
        await self._loop.run_in_executor(None, react)

    async def _next(self) -> Message:
        return await self._receive()


class Body(io.RawIOBase):
    """The body of a request, of which more is taken from the caller only as it is read."""

    def __init__(self, caller: Caller, first: Message) -> None:
        self._caller = caller
        self._piece, self._more = _content(first)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """What there is, up to the buffer's length; 0 at the end, also when the caller hung up before."""
        while not self._piece and self._more:
            self._piece, self._more = _content(self._caller.receive())
        size = min(len(buffer), len(self._piece))
        buffer[:size], self._piece = self._piece[:size], self._piece[size:]
        return size


def environment(scope: Message, body: Body, caller: Caller) -> dict[str, Any]:
    """PEP 3333's variables. A header whose name has an underscore could pass for another, and is left out."""
    host, port = scope["server"]
    variables = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(scope["raw_path"]).decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": host,
        "SERVER_PORT": str(port),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "REMOTE_ADDR": scope["client"][0],
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope["scheme"],
        "wsgi.input": io.BufferedReader(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        ON_HANG_UP: caller.on_hang_up,
    }
    for name, value in scope["headers"]:
        if b"_" not in name:
            key = OF_THE_BODY.get(name) or "HTTP_" + name.decode("latin-1").upper().replace("-", "_")
            text = value.decode("latin-1")
            glue = "; " if name == b"cookie" else ","
            variables[key] = f"{variables[key]}{glue}{text}" if key in variables else text
    return variables


def respond(application: Application, environ: dict[str, Any], caller: Caller) -> list[Message]:
    """Make the answer, send what there is of a stream, and return what is left to be sent."""
    start: Message = {}

    def start_response(status: str, headers: list[tuple[str, str]], _: object = None) -> None:
        encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        start.update(type="http.response.start", status=int(status[:3]), headers=encoded)

    answer = application(environ, start_response)
    try:
        if isinstance(answer, HttpResponse):
            return [start, _piece(answer.content)]
        unsent = [start]
        caller.on_hang_up(lambda: None)
        for piece in answer:
            if caller.hung_up:
                return []
            caller.send([*unsent, _piece(piece, more=True)])
            unsent = []
        return [*unsent, _piece(b"")]
    finally:
        if (close := getattr(answer, "close", None)) is not None:
            close()


def _content(message: Message) -> tuple[memoryview, bool]:
    return memoryview(message.get("body", b"")), bool(message.get("more_body"))


def _piece(content: bytes, *, more: bool = False) -> Message:
    return {"type": "http.response.body", "body": content, "more_body": more}
