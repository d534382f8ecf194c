"""For how long a slow sender of a body is waited for."""

import asyncio
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmi_site.http.request_body import (
    BODY_TIMEOUT_S,
    MAX_LARGE_BODIES_PER_SENDER,
    MAX_SLOW_BODIES_PER_SENDER,
    MIN_BYTES_PER_TIMEOUT,
    Body,
    BodyTimeout,
    receive_body,
    receive_rest,
)
from hmi_site.http.wsgi_threads import Message
from tenants.base.errors import HmiError
from tenants.base.upload_concurrency import SMALL_BODY_BYTES
from tests.unit.hmi_site.slow_clock import slow_down
from tests.unit.hmi_site.test_wsgi_threads import END, LARGE, STREAMED, Environ, Server, Start, piece

PIECES = st.lists(st.tuples(st.integers(0, 2 * MIN_BYTES_PER_TIMEOUT), st.floats(0, 2 * BODY_TIMEOUT_S)))
ENDLESS = 1000
"""Pieces of a body, in seconds of which none goes by."""


@pytest.fixture
def slow_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten seconds pass whenever somebody looks."""
    slow_down(monkeypatch)


@given(PIECES)
def test_a_body_is_waited_for_no_longer_than_its_size_allows(pieces: list[tuple[int, float]]) -> None:
    sender, waited, size = BodyTimeout(), 0.0, 0
    for came, after_s in pieces:
        if after_s >= sender.left_s:
            break
        sender.received(came, after_s=after_s)
        waited, size = waited + after_s, size + came
    assert 0 <= sender.left_s <= BODY_TIMEOUT_S
    assert waited + sender.left_s <= BODY_TIMEOUT_S * (1 + size / MIN_BYTES_PER_TIMEOUT) * (1 + 1e-9)


@pytest.mark.usefixtures("slow_clock")
@pytest.mark.parametrize(("size", "is_read"), [(1, False), (MIN_BYTES_PER_TIMEOUT, True)])
def test_a_body_that_comes_too_slowly_holds_no_thread(size: int, is_read: bool) -> None:
    read: list[bytes] = []
    refused: list[str] = []

    def application(environ: Environ, start_response: Start) -> Iterable[bytes]:
        try:
            read.extend(iter(lambda: environ["wsgi.input"].read1(size), b""))
        except HmiError as error:
            refused.append(str(error.code))
        start_response("200 OK", [])
        return iter([b""])

    Server(piece(LARGE), *[piece(b"x" * size)] * 20, piece(b"", more=False), permit=STREAMED).ask(application)
    assert refused == ([] if is_read else ["body_too_slow"])
    assert (sum(map(len, read)) >= len(LARGE) + 20 * size) is is_read


@pytest.mark.usefixtures("slow_clock")
def test_a_small_body_that_comes_too_slowly_is_refused() -> None:
    pieces = iter([piece(b"x")] * ENDLESS)

    async def receive() -> Message:
        await asyncio.sleep(0)
        return next(pieces)

    body = asyncio.run(receive_body(scope(ENDLESS), receive))
    assert len(body.content) < ENDLESS
    assert refusal_of(body) == "body_too_slow"


@pytest.mark.parametrize("size", [ENDLESS, None])
def test_a_body_of_which_nothing_comes_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch, size: int | None
) -> None:
    monkeypatch.setattr("hmi_site.http.request_body.BodyTimeout", lambda: BodyTimeout(left_s=0.01))
    body = asyncio.run(receive_body(scope(size), nothing))
    assert (body.content, refusal_of(body)) == (b"", "body_too_slow")


def test_a_large_body_of_which_nothing_comes_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused: list[str] = []

    def application(environ: Environ, start_response: Start) -> Iterable[bytes]:
        with pytest.raises(HmiError) as error:
            environ["wsgi.input"].read()
        refused.append(str(error.value.code))
        start_response("408 Request Timeout", [])
        return iter([b""])

    monkeypatch.setattr("hmi_site.http.wsgi_threads.BodyTimeout", lambda: BodyTimeout(left_s=0.01))
    server = Server(END, headers=[(b"content-length", b"2000000")], permit=STREAMED)
    server.ask(application)
    assert (refused, server.sent[0]["status"]) == (["body_too_slow"], 408)


def test_of_one_address_only_some_bodies_may_be_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hmi_site.http.request_body.SLOW_AFTER_S", 0.0)

    async def all_at_once() -> list[Body]:
        coming, more = asyncio.Event(), MAX_SLOW_BODIES_PER_SENDER + 3

        async def receive() -> Message:
            await coming.wait()
            return piece(b"x", more=False)

        bodies = [asyncio.create_task(receive_body(scope(1), receive)) for _ in range(more)]
        elsewhere = asyncio.create_task(receive_body(scope(1, "203.0.113.9"), receive))
        refused = [(await one) for one in await _first(bodies, 3)]
        coming.set()
        return [*refused, *(await asyncio.gather(*bodies, elsewhere))]

    bodies = asyncio.run(all_at_once())
    assert [refusal_of(body) for body in bodies[:3]] == ["queue_full"] * 3
    assert sum(body.error is None for body in bodies) == MAX_SLOW_BODIES_PER_SENDER + 1
    assert asyncio.run(receive_body(scope(1), _one)).content == b"x"  # each gave its place back


def test_of_one_sender_only_some_large_bodies_are_on_their_way_however_fast_they_are() -> None:
    large = 2 * SMALL_BODY_BYTES

    async def all_at_once() -> list[Body]:
        coming, bodies = (
            asyncio.Event(),
            [Body(more_body=True) for _ in range(MAX_LARGE_BODIES_PER_SENDER + 2)],
        )

        async def receive() -> Message:
            await coming.wait()
            return piece(b"x", more=False)

        def take(body: Body, sender: str) -> "asyncio.Task[None]":
            rest = receive_rest(body, receive, size=None, limit=large, sender=lambda: sender)
            return asyncio.create_task(rest)

        tasks = [take(body, "acme") for body in bodies[:-1]]
        for _ in range(100):  # turns of the loop, in which no time has to go by
            await asyncio.sleep(0)
        tasks.append(take(bodies[-1], "globex"))
        await asyncio.sleep(0)
        coming.set()
        await asyncio.gather(*tasks)
        return bodies

    *allowed, refused, of_another = asyncio.run(all_at_once())
    assert refusal_of(refused) == "queue_full"
    assert [body.content for body in [*allowed, of_another]] == [b"x"] * (MAX_LARGE_BODIES_PER_SENDER + 1)


async def _first(tasks: list["asyncio.Task[Body]"], count: int) -> list["asyncio.Task[Body]"]:
    while sum(task.done() for task in tasks) < count:
        await asyncio.sleep(0.001)
    return [task for task in tasks if task.done()]


async def _one() -> Message:
    return piece(b"x", more=False)


async def nothing() -> Message:
    return await asyncio.Future[Message]()


def scope(size: int | None, address: str = "203.0.113.1") -> Message:
    """That of a request with a body of so many bytes, or a chunked one."""
    length = (b"transfer-encoding", b"chunked") if size is None else (b"content-length", str(size).encode())
    return {"type": "http", "headers": [length], "client": (address, "1234")}


def refusal_of(body: Body) -> str | None:
    return str(body.error.code) if body.error else None
