"""The WSGI application in threads, behind an ASGI server that is played here."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

import pytest
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpRequest, HttpResponse

from hmi_site.http.body_limits import BODY_ERROR, BodyPermit
from hmi_site.http.wsgi_threads import Message, ThreadedWsgiApp
from inference.api.pending_response import ON_EVENT_LOOP, PendingResponse
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.upload_concurrency import SMALL_BODY_BYTES

Environ = dict[str, Any]
Start = Callable[..., Any]
CHUNKED = [(b"transfer-encoding", b"chunked")]
END = object()
"""In the place of a message: the caller says nothing more."""


class Server:
    """Gives the application one request, and keeps what it sends."""

    def __init__(
        self,
        *messages: object,
        path: bytes = b"/",
        headers: Iterable[tuple[bytes, bytes]] = CHUNKED,
        permit: BodyPermit | None = None,
    ) -> None:
        self._permit = permit
        self.sent: list[Message] = []
        self._messages = list(messages) or [{"type": "http.request", "body": b"", "more_body": False}]
        self._hung_up = threading.Event()
        self._scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "raw_path": path,
            "query_string": b"x=%20y",
            "server": ("127.0.0.1", "8000"),
            "client": ("127.0.0.9", "1234"),
            "headers": list(headers),
        }

    def hang_up(self) -> None:
        self._hung_up.set()

    def ask(self, application: Callable[[Environ, Start], Iterable[bytes]]) -> bytes:
        """The body of the answer. Once it is there the caller hangs up."""

        async def talk() -> None:
            threaded = ThreadedWsgiApp(application, body_permit=self._body_permit, threads=2)
            await threaded(self._scope, self._receive, self._send)
            self.hang_up()
            await asyncio.sleep(0.05)

        asyncio.run(talk())
        return b"".join(message.get("body", b"") for message in self.sent)

    def _body_permit(self, environ: Environ) -> BodyPermit:
        assert self._permit, "nobody was to send so much"
        return self._permit

    async def _receive(self) -> Message:
        if self._messages and isinstance(message := self._messages.pop(0), dict):
            return message
        while not self._hung_up.is_set():
            await asyncio.sleep(0.001)
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        self.sent.append(message)


LARGE = b"x" * (SMALL_BODY_BYTES + 1)
STREAMED = BodyPermit(limit=10 * SMALL_BODY_BYTES, sender=1, is_streamed=True, keeps_partial=False)


def piece(content: bytes, more: bool = True) -> Message:
    return {"type": "http.request", "body": content, "more_body": more}


def answering(answer: bytes = b"good") -> tuple[list[Environ], Callable[[Environ, Start], Iterable[bytes]]]:
    """An application, and where it puts what it sees."""
    seen: list[Environ] = []

    def application(environ: Environ, start_response: Start) -> Iterable[bytes]:
        seen.append({**environ, "body": environ["wsgi.input"].read()})
        start_response("201 Created", [("X-Made", "yes")])
        return HttpResponse(answer)

    return seen, application


def test_an_answer_is_sent_whole() -> None:
    server = Server()
    assert server.ask(answering()[1]) == b"good"
    start, end = server.sent
    assert (start["status"], start["headers"]) == (201, [(b"X-Made", b"yes")])
    assert not end["more_body"]


@pytest.mark.parametrize(
    "pieces",
    [
        [piece(b"abcdef", more=False)],
        [piece(b"abcdef"), piece(b"", more=False)],
        [piece(b"abc"), piece(b""), piece(b"def", more=False)],
    ],
)
def test_a_body_is_read_in_whatever_pieces_it_comes(pieces: list[Message]) -> None:
    seen, application = answering()
    Server(*pieces).ask(application)
    assert seen[0]["body"] == b"abcdef"


@pytest.mark.parametrize("size", [b"2000000", None])
def test_a_large_body_is_read_no_further_than_the_application_does(size: bytes | None) -> None:
    def application(environ: Environ, start_response: Start) -> Iterable[bytes]:
        first = environ["wsgi.input"].readline()
        start_response("200 OK", [])
        return HttpResponse(first)

    headers = [(b"content-length", size)] if size else CHUNKED
    server = Server(piece(b"one\n" + LARGE), END, headers=headers, permit=STREAMED)
    assert server.ask(application) == b"one\n"


def test_a_body_that_breaks_off_is_refused() -> None:
    seen, application = answering()
    server = Server(piece(b"abc"))
    server.hang_up()
    server.ask(application)
    assert seen[0][BODY_ERROR].code == "body_truncated"


@pytest.mark.parametrize("keeps", [True, False])
def test_a_large_body_that_breaks_off_ends_there_only_for_who_keeps_it(keeps: bool) -> None:
    read: list[bytes] = []

    def application(environ: Environ, start_response: Start) -> Iterable[bytes]:
        start_response("200 OK", [])
        try:
            read.append(environ["wsgi.input"].read())
        except HmiError as error:
            return HttpResponse(str(error.code))
        return HttpResponse(b"read")

    server = Server(piece(LARGE), piece(b"abc"), permit=replace(STREAMED, keeps_partial=keeps))
    server.hang_up()
    assert server.ask(application) == (b"read" if keeps else b"body_truncated")
    assert read == ([LARGE + b"abc"] if keeps else [])


def test_a_large_body_that_is_not_streamed_is_whole_before_the_application_runs() -> None:
    seen, application = answering()
    permit = replace(STREAMED, is_streamed=False)
    Server(piece(LARGE), piece(b"abc", more=False), permit=permit).ask(application)
    assert (seen[0]["body"], seen[0]["CONTENT_LENGTH"]) == (LARGE + b"abc", str(len(LARGE) + 3))


@pytest.mark.parametrize("streamed", [True, False])
def test_a_chunked_body_beyond_what_is_permitted_is_refused(streamed: bool) -> None:
    def application(environ: Environ, start_response: Start) -> Iterable[bytes]:
        start_response("200 OK", [])
        try:
            environ["wsgi.input"].read()
            return HttpResponse(str(environ[BODY_ERROR].code))
        except HmiError as error:
            return HttpResponse(str(error.code))

    permit = replace(STREAMED, is_streamed=streamed, limit=len(LARGE) + 2)
    assert Server(piece(LARGE), piece(b"abc"), END, permit=permit).ask(application) == b"body_too_large"


def test_the_address_reaches_the_application_as_bytes_were_meant() -> None:
    seen, application = answering()
    Server(path=b"/a%ff%00b%C3%A9").ask(application)
    assert seen[0]["PATH_INFO"].encode("latin-1") == b"/a\xff\x00b\xc3\xa9"
    assert (seen[0]["QUERY_STRING"], seen[0]["REMOTE_ADDR"]) == ("x=%20y", "127.0.0.9")


@pytest.mark.parametrize("charset", ["nonsense''x", "utf-8''a%00b", "idna''%ff"])
def test_a_content_type_that_django_cannot_read_does_not_reach_it(charset: str) -> None:
    seen, application = answering()
    Server(headers=[(b"content-type", f"text/plain; charset*={charset}".encode()), *CHUNKED]).ask(application)
    assert WSGIRequest(seen[0]).content_type == "application/octet-stream"


def test_headers_that_come_twice_are_joined_and_none_passes_for_another() -> None:
    seen, application = answering()
    headers = [
        (b"accept", b"a"),
        (b"accept", b"b"),
        (b"cookie", b"c=1"),
        (b"cookie", b"d=2"),
        (b"content-length", b"0"),
        (b"x_forwarded_proto", b"https"),
    ]
    Server(headers=headers).ask(application)
    assert (seen[0]["HTTP_ACCEPT"], seen[0]["HTTP_COOKIE"]) == ("a,b", "c=1; d=2")
    assert seen[0]["CONTENT_LENGTH"] == "0"
    assert "HTTP_X_FORWARDED_PROTO" not in seen[0]


class Stream:
    """An answer in pieces, which the caller does not want to the end."""

    def __init__(self, server: Server) -> None:
        self.made, self.closed = 0, False
        self._server = server

    def __iter__(self) -> Iterator[bytes]:
        for number in range(1000):
            self.made += 1
            yield b"x"
            if number == 4:
                self._server.hang_up()
            if number >= 4:
                threading.Event().wait(0.01)

    def close(self) -> None:
        self.closed = True


def test_a_stream_is_sent_as_it_is_made_and_ends_with_its_caller() -> None:
    server = Server()
    stream = Stream(server)

    def application(environ: Environ, start_response: Start) -> Iterable[bytes]:
        start_response("200 OK", [])
        return stream

    server.ask(application)
    assert 5 <= stream.made < 1000
    assert stream.closed
    assert [message.get("body") for message in server.sent[:6]] == [None, *[b"x"] * 5]


def test_a_whole_stream_has_an_end() -> None:
    def application(environ: Environ, start_response: Start) -> Iterable[bytes]:
        start_response("200 OK", [])
        return iter([b"a", b"b"])

    server = Server()
    assert server.ask(application) == b"ab"
    assert [message.get("more_body") for message in server.sent] == [None, True, True, False]


def pending(
    wait: Callable[[], Coroutine[Any, Any, bytes]], cancel: Callable[[], object] = lambda: None
) -> PendingResponse[bytes]:
    """A response with what is awaited as its content."""
    response = PendingResponse(HttpRequest(), wait, lambda outcome: HttpResponse(outcome()), cancel)
    response["X-Middleware"] = "yes"
    response.set_cookie("kept", "too")
    return response


def test_a_pending_response_waits_on_the_event_loop_and_is_finished_in_a_thread() -> None:
    threads: list[int] = []

    async def wait() -> bytes:
        threads.append(threading.get_ident())
        await asyncio.sleep(0)
        return b"good"

    response = pending(wait)
    response.when_complete(lambda finished: finished.headers.setdefault("X-Size", str(len(finished.content))))

    def application(environ: Environ, start_response: Start) -> Iterable[bytes]:
        assert ON_EVENT_LOOP in environ
        return cast("Iterable[bytes]", response)

    server = Server()
    assert server.ask(application) == b"good"
    assert threads == [threading.get_ident()]
    headers = dict(server.sent[0]["headers"])
    assert headers[b"X-Middleware"] == b"yes"
    assert headers[b"Content-Length"] == headers[b"X-Size"] == b"4"
    assert headers[b"Set-Cookie"].startswith(b"kept=too")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ValueError("unforeseen"), 500),
        (HmiError(ErrorCode.CONFLICT, "Not now."), 409),
        (SystemExit(), 500),
    ],
)
def test_callbacks_of_a_pending_response_hear_of_its_status_whatever_fails(
    error: BaseException, status: int
) -> None:
    def finish(_: object) -> HttpResponse:
        raise error

    def fail(_: HttpResponse) -> None:
        raise ValueError("a callback")

    heard: list[int] = []
    response: PendingResponse[bytes] = PendingResponse(HttpRequest(), cast("Any", None), finish, lambda: None)
    response.when_complete(fail)
    response.when_complete(lambda finished: heard.append(finished.status_code))
    with suppress(SystemExit):
        response.complete(cast("Any", None))
    assert heard == [status]


def test_a_client_that_disconnects_cancels_a_pending_response() -> None:
    server, cancelled = Server(), threading.Event()

    async def wait() -> bytes:
        server.hang_up()
        assert await asyncio.to_thread(cancelled.wait, 10)
        return b"for nobody"

    finished: list[HttpResponse] = []
    response = pending(wait, cancelled.set)
    response.when_complete(finished.append)
    assert server.ask(lambda *_: cast("Iterable[bytes]", response)) == b""
    assert len(finished) == 1


def test_a_client_that_disconnects_after_the_response_cancels_nothing() -> None:
    cancelled = threading.Event()

    async def wait() -> bytes:
        return b"good"

    response = pending(wait, cancelled.set)
    assert Server().ask(lambda *_: cast("Iterable[bytes]", response)) == b"good"
    assert not cancelled.is_set()


def test_what_is_to_be_done_at_the_end_is_done_when_the_server_stops() -> None:
    happened: list[str] = []

    async def receive() -> Message:
        happened.append("asked")
        return {"type": "lifespan"}

    async def send(message: Message) -> None:
        happened.append(message["type"])

    live = ThreadedWsgiApp(
        answering()[1],
        body_permit=lambda _: STREAMED,
        threads=1,
        on_shutdown=lambda: happened.append("the end"),
    )
    asyncio.run(live({"type": "lifespan"}, receive, send))
    ready, stopped = "lifespan.startup.complete", "lifespan.shutdown.complete"
    assert happened == ["asked", ready, "asked", "the end", stopped]
