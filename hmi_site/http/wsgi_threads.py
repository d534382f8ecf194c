"""A WSGI application behind an ASGI server: each request in a thread, as under a WSGI server.

Only by ASGI does the web server tell that a caller has hung up. Django's own ASGI handler would change
threads several times in each request. A thread holds a request only while there is something to do: bodies
are read before (but for large files), and answers that are streams are sent from the event loop.
"""

import asyncio
import contextvars
import io
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from django.http import FileResponse, HttpResponse

from hmi_site.http.body_limits import REFUSAL, SENDER, Permit
from hmi_site.http.download_limit import SMALL_FILE_BYTES, is_small_file
from hmi_site.http.request_body import (
    BODY,
    DISCONNECT,
    Body,
    BodyTimeout,
    take_body,
    take_rest,
    too_large,
    too_slow,
    truncated,
)
from inference.api.hang_ups import ON_HANG_UP
from tenants.base.errors import HmiError
from tenants.base.upload_concurrency import release_database

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Environ = dict[str, Any]
Application = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]

OF_THE_BODY: Final = {b"content-type": "CONTENT_TYPE", b"content-length": "CONTENT_LENGTH"}


class Threaded:
    """The application, in so many threads; a request that finds none free waits for one. ``permit`` says, in
    a thread, who may send a body that is not small. ``at_start`` is called when the server
    starts, ``at_end`` when it stops, after its last request."""

    def __init__(
        self,
        application: Application,
        *,
        permit: Callable[[Environ], Permit],
        threads: int,
        at_start: Callable[[], object] = lambda: None,
        at_end: Callable[[], object] = lambda: None,
    ) -> None:
        self._application, self._permit = application, permit
        self._at_start, self._at_end = at_start, at_end
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
        self._at_start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await asyncio.get_running_loop().run_in_executor(self._threads, self._at_end)
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: Message, receive: Receive, send: Send) -> None:
        caller = Caller(asyncio.get_running_loop(), receive, send)
        context = contextvars.copy_context()
        body = scope.get(BODY) or await take_body(scope, receive)
        environ = environment(scope, caller)
        try:
            if body.goes_on:
                await self._take_large(environ, body, caller, context)
            else:
                take_whole(environ, body)
            answer = await self._in_thread(context, respond, self._application, environ, caller)
            if answer.pieces is not None:
                await self._send_stream(answer, caller, context)
            elif not caller.hung_up:
                await caller.send_all(answer.messages)
        finally:
            caller.forget()

    async def _take_large(
        self, environ: Environ, body: Body, caller: "Caller", context: contextvars.Context
    ) -> None:
        """Who may not send it is refused before more of it is read."""
        try:
            permit = await self._in_thread(context, self._permit, environ)
            if permit.is_streamed:
                stream = StreamedBody(caller, body.content, permit)
                environ.setdefault("CONTENT_LENGTH", str(permit.limit))  # chunked, and no longer
                environ.update({"wsgi.input": io.BufferedReader(stream), SENDER: permit.sender})
                return
            size = int(environ["CONTENT_LENGTH"]) if "CONTENT_LENGTH" in environ else None
            await take_rest(body, caller.receive, size=size, most=permit.limit, sender=lambda: permit.sender)
            if body.goes_on:
                raise too_large(permit.limit)
        except HmiError as refusal:
            body.refusal, body.content = refusal, b""
        take_whole(environ, body)

    async def _send_stream(
        self, answer: "WsgiResponse", caller: "Caller", context: contextvars.Context
    ) -> None:
        """A thread makes each piece; none waits until the caller has taken it."""
        unsent = answer.messages
        try:
            caller.watch(lambda: None)
            while (
                not caller.hung_up
                and (piece := await self._in_thread(context, answer.next_piece)) is not None
            ):
                await caller.send_all([*unsent, _piece(piece, more=True)])
                unsent = []
            if not caller.hung_up:
                await caller.send_all([*unsent, _piece(b"")])
        finally:
            await self._in_thread(context, answer.close)

    async def _in_thread(self, context: contextvars.Context, step: Callable[..., Any], *given: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, context.run, step, *given)


class Caller:
    """Whoever waits for the answer."""

    def __init__(self, loop: asyncio.AbstractEventLoop, receive: Receive, send: Send) -> None:
        self.hung_up = False
        self.receive = receive
        self._loop, self._send = loop, send
        self._watch: asyncio.Task[None] | None = None
        self._patience = BodyTimeout()

    def next_message(self) -> Message:
        """For the thread that reads a body. Raises ``body_too_slow`` where a caller sends nothing more, or
        too slowly; no OSError, which Django would take for a connection that broke, and pass over in places.
        """
        if not self._patience.left_s:  # what has come just now comes too late
            raise too_slow()
        coming, begun = asyncio.run_coroutine_threadsafe(self._next(), self._loop), time.monotonic()
        try:
            message = coming.result(self._patience.left_s)
        except TimeoutError:
            coming.cancel()
            raise too_slow() from None
        self._patience.came(len(message.get("body", b"")), after_s=time.monotonic() - begun)
        return message

    def on_hang_up(self, react: Callable[[], None]) -> None:
        """Have this called, in another thread, if the caller hangs up before the answer. Once a request, when
        its body is read. For the thread that makes the answer."""
        self._loop.call_soon_threadsafe(self.watch, react)

    def watch(self, react: Callable[[], None]) -> None:
        """`on_hang_up`, from within the loop."""
        if self._watch is None:
            self._watch = self._loop.create_task(self._until_hung_up(react))

    async def send_all(self, messages: list[Message]) -> None:
        """Returns when there is room for more."""
        for message in messages:
            await self._send(message)

    def forget(self) -> None:
        """There is nothing to wait for any more."""
        if self._watch is not None:
            self._watch.cancel()

    async def _until_hung_up(self, react: Callable[[], None]) -> None:
        while (await self._next())["type"] != DISCONNECT:
            continue
        self.hung_up = True
        await self._loop.run_in_executor(None, react)

    async def _next(self) -> Message:
        return await self.receive()


class StreamedBody(io.RawIOBase):
    """A large body, of which more is taken from the caller only as it is read."""

    def __init__(self, caller: Caller, begun: bytes, permit: Permit) -> None:
        self._caller, self._permit = caller, permit
        self._piece, self._more = memoryview(begun), True
        self._left = permit.limit - len(begun)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """What there is, up to the buffer's length; 0 at the end. Raises ``body_truncated`` where it breaks
        off, unless what came is kept, ``body_too_slow`` and ``body_too_large``."""
        while not self._piece and self._more:
            self._take()
        size = min(len(buffer), len(self._piece))
        buffer[:size], self._piece = self._piece[:size], self._piece[size:]
        return size

    def _take(self) -> None:
        message = self._caller.next_message()
        if message["type"] == DISCONNECT and not self._permit.keeps_part:
            raise truncated()
        self._piece, self._more = memoryview(message.get("body", b"")), bool(message.get("more_body"))
        self._left -= len(self._piece)
        if self._left < 0:
            raise too_large(self._permit.limit)


@dataclass(slots=True)
class WsgiResponse:
    """What is to be sent: messages, and the pieces of a stream."""

    messages: list[Message]
    pieces: Iterator[bytes] | None = None
    close: Callable[[], object] = field(default=lambda: None)

    def next_piece(self) -> bytes | None:
        """None at the end. Holds no connection to the database afterwards."""
        assert self.pieces is not None
        try:
            return next(self.pieces, None)
        finally:
            release_database()


def take_whole(environ: Environ, body: Body) -> None:
    """Let the application read a body that is here, or learn why it is not."""
    environ["wsgi.input"] = io.BytesIO(body.content)
    if body.refusal is not None:
        environ[REFUSAL] = body.refusal
    if body.content or "CONTENT_LENGTH" in environ or "HTTP_TRANSFER_ENCODING" in environ:
        environ["CONTENT_LENGTH"] = str(len(body.content))


def environment(scope: Message, caller: Caller) -> Environ:
    """PEP 3333's variables, but for the body. A header whose name has an underscore could pass for another,
    and is left out."""
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
        "wsgi.input": io.BytesIO(),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope["scheme"],
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


def respond(application: Application, environ: Environ, caller: Caller) -> WsgiResponse:
    """Make the answer. Where it is a stream, nothing of that is made yet, and the connection to the database
    is given back."""
    start: Message = {}

    def start_response(status: str, headers: list[tuple[str, str]], _: object = None) -> None:
        encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        start.update(type="http.response.start", status=int(status[:3]), headers=encoded)

    answer = application(environ, start_response)
    close = getattr(answer, "close", lambda: None)
    if isinstance(answer, FileResponse):
        answer.block_size = SMALL_FILE_BYTES
    if isinstance(answer, HttpResponse) or is_small_file(answer) or caller.hung_up:
        try:
            return WsgiResponse([start, _piece(b"" if caller.hung_up else b"".join(answer))])
        finally:
            close()
    release_database()
    return WsgiResponse([start], iter(answer), close)


def _piece(content: bytes, *, more: bool = False) -> Message:
    return {"type": "http.response.body", "body": content, "more_body": more}
