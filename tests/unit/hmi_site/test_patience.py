"""For how long a slow sender of a body is waited for."""

import asyncio
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmi_site.direct.application import _read
from hmi_site.patience import LEAST_BYTES, WAIT_S, Patience
from hmi_site.threaded import TOO_SLOW, Message
from tenants.errors import HmiError
from tests.unit.hmi_site.slow_clock import slow_down
from tests.unit.hmi_site.test_threaded import END, Environ, Server, Start, piece

PIECES = st.lists(st.tuples(st.integers(0, 2 * LEAST_BYTES), st.floats(0, 2 * WAIT_S)))
ENDLESS = 1000
"""Pieces of a body, in seconds of which none goes by."""


@pytest.fixture
def slow_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten seconds pass whenever somebody looks."""
    slow_down(monkeypatch)


@given(PIECES)
def test_a_body_is_waited_for_no_longer_than_its_size_allows(pieces: list[tuple[int, float]]) -> None:
    sender, waited, size = Patience(), 0.0, 0
    for came, after_s in pieces:
        if after_s >= sender.left_s:
            break
        sender.came(came, after_s=after_s)
        waited, size = waited + after_s, size + came
    assert 0 <= sender.left_s <= WAIT_S
    assert waited + sender.left_s <= WAIT_S * (1 + size / LEAST_BYTES) * (1 + 1e-9)


@pytest.mark.usefixtures("slow_clock")
@pytest.mark.parametrize(("size", "is_read"), [(1, False), (LEAST_BYTES, True)])
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

    Server(*[piece(b"x" * size)] * 20, piece(b"", more=False)).ask(application)
    assert refused == ([] if is_read else ["body_too_slow"])
    assert (sum(map(len, read)) >= 20 * size) is is_read


@pytest.mark.usefixtures("slow_clock")
def test_a_plain_request_that_comes_too_slowly_is_handed_on_as_one() -> None:
    pieces = iter([piece(b"x")] * ENDLESS)

    async def receive() -> Message:
        await asyncio.sleep(0)
        return next(pieces)

    body, end = asyncio.run(_read(receive, ENDLESS))
    assert len(body) < ENDLESS
    assert end == {"type": TOO_SLOW}


def test_a_body_of_which_nothing_comes_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    refused: list[str] = []

    def application(environ: Environ, start_response: Start) -> Iterable[bytes]:
        with pytest.raises(HmiError) as error:
            environ["wsgi.input"].read()
        refused.append(str(error.value.code))
        start_response("408 Request Timeout", [])
        return iter([b""])

    monkeypatch.setattr("hmi_site.threaded.Patience", lambda: Patience(left_s=0.01))
    server = Server(END)
    server.ask(application)
    assert (refused, server.sent[0]["status"]) == (["body_too_slow"], 408)


def test_a_plain_request_without_a_body_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing() -> Message:
        return await asyncio.Future[Message]()

    monkeypatch.setattr("hmi_site.direct.application.Patience", lambda: Patience(left_s=0.01))
    assert asyncio.run(_read(nothing, ENDLESS)) == (b"", {"type": TOO_SLOW})
