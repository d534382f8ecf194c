"""A WSGI application behind an ASGI server: each request in one thread, which waits for nobody.

Django's own ASGI handler would change threads several times in each request. Here bodies are received on the
event loop before a thread starts (except uploads of files), pending responses wait on the event loop for the
workers' reply, and streamed responses are sent from it.
"""

import asyncio
import contextvars
import io
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, cast
from urllib.parse import unquote_to_bytes

from django.http import FileResponse, HttpResponse, StreamingHttpResponse

from hmi_site.http.body_limits import BODY_ERROR, BODY_SENDER, BodyPermit
from hmi_site.http.download_limit import SMALL_FILE_BYTES, is_small_file
from hmi_site.http.request_body import (
    BODY,
    DISCONNECT,
    Body,
    BodyTimeout,
    receive_body,
    receive_rest,
    timeout_error,
    too_large_error,
    truncated_error,
)
from inference.api.pending_response import ON_EVENT_LOOP, PendingResponse
from tenants.base.errors import HmiError
from tenants.base.upload_concurrency import release_database

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Environ = dict[str, Any]
Application = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]

CONTENT_HEADERS: Final = {b"content-type": "CONTENT_TYPE", b"content-length": "CONTENT_LENGTH"}
"""The headers whose WSGI variables have no prefix ``HTTP_``."""


class ThreadedWsgiApp:
    """An ASGI application that runs a WSGI application in a pool of ``threads``.

    A request waits while all threads are busy. ``body_permit`` runs in a thread and says how large a body
    the client may send. ``on_startup`` and ``on_shutdown`` follow ASGI's lifespan; the latter runs after the
    last request.
    """

    def __init__(
        self,
        application: Application,
        *,
        body_permit: Callable[[Environ], BodyPermit],
        threads: int,
        on_startup: Callable[[], object] = lambda: None,
        on_shutdown: Callable[[], object] = lambda: None,
    ) -> None:
        self._application, self._body_permit = application, body_permit
        self._on_startup, self._on_shutdown = on_startup, on_shutdown
        self._threads = ThreadPoolExecutor(threads, "web")

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._handle_request(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        else:
            raise NotImplementedError(f"ASGI scope {scope['type']!r} is not supported")

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        self._on_startup()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await asyncio.get_running_loop().run_in_executor(self._threads, self._on_shutdown)
        await send({"type": "lifespan.shutdown.complete"})

    async def _handle_request(self, scope: Message, receive: Receive, send: Send) -> None:
        client = ClientConnection(asyncio.get_running_loop(), receive, send)
        context = contextvars.copy_context()
        body = scope.get(BODY) or await receive_body(scope, receive)
        environ = wsgi_environ(scope)
        try:
            if body.more_body:
                await self._receive_large_body(environ, body, client, context)
            else:
                set_body(environ, body)
            response = await self._in_thread(context, run_application, self._application, environ, client)
            if response.pending is not None:
                response = await self._complete(response.pending, client, context)
            if response.chunks is not None:
                await self._send_stream(response, client, context)
            elif response.async_chunks is not None:
                await self._send_async_stream(response, response.async_chunks, client, context)
            elif not client.disconnected:
                await client.send_all(response.messages)
        finally:
            client.stop_watching()

    async def _receive_large_body(
        self, environ: Environ, body: Body, client: "ClientConnection", context: contextvars.Context
    ) -> None:
        """Ask for a permit before more of the body is read."""
        try:
            permit = await self._in_thread(context, self._body_permit, environ)
            if permit.is_streamed:
                stream = StreamedBody(client, body.content, permit)
                environ.setdefault("CONTENT_LENGTH", str(permit.limit))  # a chunked body has none
                environ.update({"wsgi.input": io.BufferedReader(stream), BODY_SENDER: permit.sender})
                return
            size = int(environ["CONTENT_LENGTH"]) if "CONTENT_LENGTH" in environ else None
            await receive_rest(
                body, client.receive, size=size, limit=permit.limit, sender=lambda: permit.sender
            )
            if body.more_body:
                raise too_large_error(permit.limit)
        except HmiError as error:
            body.error, body.content = error, b""
        set_body(environ, body)

    async def _complete(
        self, pending: PendingResponse[Any], client: "ClientConnection", context: contextvars.Context
    ) -> "WsgiResponse":
        """Wait until the response can be finished, and finish it in a thread. If the client disconnects, the
        response is told, and waited for all the same."""
        waiting = asyncio.get_running_loop().create_task(pending.wait(), context=pending.context)
        client.watch_disconnect(pending.cancel)
        try:
            await asyncio.wait([waiting])
        finally:
            waiting.cancel()
            await asyncio.wait([waiting])
            response: WsgiResponse = await self._in_thread(context, complete_response, pending, waiting)
        return response

    async def _send_stream(
        self, response: "WsgiResponse", client: "ClientConnection", context: contextvars.Context
    ) -> None:
        """Make each chunk in a thread, and send it from the event loop."""
        unsent = response.messages
        try:
            client.watch_disconnect(lambda: None)
            while (
                not client.disconnected
                and (chunk := await self._in_thread(context, response.next_chunk)) is not None
            ):
                await client.send_all([*unsent, _body_message(chunk, more_body=True)])
                unsent = []
            if not client.disconnected:
                await client.send_all([*unsent, _body_message(b"")])
        finally:
            await self._in_thread(context, response.close)

    async def _send_async_stream(
        self,
        response: "WsgiResponse",
        chunks: AsyncIterator[bytes],
        client: "ClientConnection",
        context: contextvars.Context,
    ) -> None:
        """Make the chunks on the event loop, until the client disconnects, and close the response in a
        thread."""

        async def send() -> None:
            await client.send_all(response.messages)
            async for chunk in chunks:
                await client.send_all([_body_message(chunk, more_body=True)])
            await client.send_all([_body_message(b"")])

        loop = asyncio.get_running_loop()
        sending = loop.create_task(send(), context=context)

        def cancel() -> None:
            loop.call_soon_threadsafe(sending.cancel)

        client.watch_disconnect(cancel)
        try:
            await asyncio.wait([sending])
        finally:
            sending.cancel()
            await asyncio.wait([sending])  # only one of task and thread can be in the context
            await self._in_thread(context, response.close)
        if not sending.cancelled():
            sending.result()

    async def _in_thread(self, context: contextvars.Context, function: Callable[..., Any], *args: Any) -> Any:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, context.run, function, *args)


class ClientConnection:
    """The ASGI connection to the client, for the event loop and for the request's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, receive: Receive, send: Send) -> None:
        self.disconnected = False
        self.receive = receive
        self._loop, self._send = loop, send
        self._watcher: asyncio.Task[None] | None = None
        self._timeout = BodyTimeout()

    def next_message(self) -> Message:
        """Return the next message of the body, for the thread that reads it.

        Raises ``body_too_slow``. That is no OSError: Django would take one for a broken connection, and
        ignore it in places.
        """
        if not self._timeout.left_s:
            raise timeout_error()
        pending, started = asyncio.run_coroutine_threadsafe(self._receive(), self._loop), time.monotonic()
        try:
            message = pending.result(self._timeout.left_s)
        except TimeoutError:
            pending.cancel()
            raise timeout_error() from None
        self._timeout.received(len(message.get("body", b"")), after_s=time.monotonic() - started)
        return message

    def watch_disconnect(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` in a thread if the client disconnects before the response. Once a request, after
        its body is read."""
        if self._watcher is None:
            self._watcher = self._loop.create_task(self._wait_for_disconnect(callback))

    async def send_all(self, messages: list[Message]) -> None:
        """Send the messages, and return when the server takes more."""
        for message in messages:
            await self._send(message)

    def stop_watching(self) -> None:
        """Do not wait for a disconnect any more."""
        if self._watcher is not None:
            self._watcher.cancel()

    async def _wait_for_disconnect(self, callback: Callable[[], object]) -> None:
        while (await self.receive())["type"] != DISCONNECT:
            continue
        self.disconnected = True
        await self._loop.run_in_executor(None, callback)

    async def _receive(self) -> Message:
        return await self.receive()


class StreamedBody(io.RawIOBase):
    """A large body as ``wsgi.input``: received from the client only as the view reads it."""

    def __init__(self, client: ClientConnection, received: bytes, permit: BodyPermit) -> None:
        self._client, self._permit = client, permit
        self._chunk, self._more_body = memoryview(received), True
        self._left = permit.limit - len(received)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer with what is there, and return how many bytes that is; 0 at the end.

        Raises ``body_too_slow``, ``body_too_large`` and, unless the view keeps partial bodies,
        ``body_truncated``.
        """
        while not self._chunk and self._more_body:
            self._receive_chunk()
        size = min(len(buffer), len(self._chunk))
        buffer[:size], self._chunk = self._chunk[:size], self._chunk[size:]
        return size

    def _receive_chunk(self) -> None:
        message = self._client.next_message()
        if message["type"] == DISCONNECT and not self._permit.keeps_partial:
            raise truncated_error()
        self._chunk, self._more_body = memoryview(message.get("body", b"")), bool(message.get("more_body"))
        self._left -= len(self._chunk)
        if self._left < 0:
            raise too_large_error(self._permit.limit)


@dataclass(slots=True)
class WsgiResponse:
    """ASGI messages to send and, for a stream, the chunks that follow: ``async_chunks`` hold no thread.
    ``pending``: there are no messages yet."""

    messages: list[Message] = field(default_factory=list)
    chunks: Iterator[bytes] | None = None
    async_chunks: AsyncIterator[bytes] | None = None
    close: Callable[[], object] = field(default=lambda: None)
    pending: PendingResponse[Any] | None = None

    def next_chunk(self) -> bytes | None:
        """Return the next chunk; None at the end. Releases the thread's database connection."""
        assert self.chunks is not None
        try:
            return next(self.chunks, None)
        finally:
            release_database()


def set_body(environ: Environ, body: Body) -> None:
    """Give the application a complete body, or the error that kept it from being complete."""
    environ["wsgi.input"] = io.BytesIO(body.content)
    if body.error is not None:
        environ[BODY_ERROR] = body.error
    if body.content or "CONTENT_LENGTH" in environ or "HTTP_TRANSFER_ENCODING" in environ:
        environ["CONTENT_LENGTH"] = str(len(body.content))


def wsgi_environ(scope: Message) -> Environ:
    """PEP 3333's variables of an ASGI scope, without the body.

    Headers with an underscore in their name are left out: they could pass for another header.
    """
    host, port = scope["server"]
    environ = {
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
        ON_EVENT_LOOP: True,
    }
    for name, value in scope["headers"]:
        if b"_" not in name:
            key = CONTENT_HEADERS.get(name) or "HTTP_" + name.decode("latin-1").upper().replace("-", "_")
            text = value.decode("latin-1")
            separator = "; " if name == b"cookie" else ","
            environ[key] = f"{environ[key]}{separator}{text}" if key in environ else text
    if "*" in environ.get("CONTENT_TYPE", ""):  # parameters in another charset, on which Django may fail
        environ["CONTENT_TYPE"] = "application/octet-stream"
    return environ


def run_application(application: Application, environ: Environ, client: ClientConnection) -> WsgiResponse:
    """Call the WSGI application. For a stream, and a response that is pending, release the database
    connection; no chunk is made yet."""
    start: Message = {}

    def start_response(status: str, headers: list[tuple[str, str]], _: object = None) -> None:
        encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        start.update(type="http.response.start", status=int(status[:3]), headers=encoded)

    response = application(environ, start_response)
    close = getattr(response, "close", lambda: None)
    if isinstance(response, FileResponse):
        response.block_size = SMALL_FILE_BYTES
    if isinstance(response, HttpResponse) or is_small_file(response) or client.disconnected:
        try:
            return WsgiResponse([start, _body_message(b"" if client.disconnected else b"".join(response))])
        finally:
            close()
    release_database()
    if isinstance(response, PendingResponse):
        return WsgiResponse(pending=response)
    if getattr(response, "is_async", False):
        return WsgiResponse([start], async_chunks=aiter(cast("StreamingHttpResponse", response)), close=close)
    return WsgiResponse([start], iter(response), close=close)


def complete_response(pending: PendingResponse[Any], waiting: "asyncio.Future[Any]") -> WsgiResponse:
    """Finish a pending response, and close it."""
    try:
        response = pending.complete(waiting)
        cookies = [("Set-Cookie", cookie.OutputString()) for cookie in response.cookies.values()]
        encoded = [
            (name.encode("latin-1"), value.encode("latin-1")) for name, value in [*response.items(), *cookies]
        ]
        start = {"type": "http.response.start", "status": response.status_code, "headers": encoded}
        return WsgiResponse([start, _body_message(response.content)])
    finally:
        pending.close()


def _body_message(content: bytes, *, more_body: bool = False) -> Message:
    return {"type": "http.response.body", "body": content, "more_body": more_body}
