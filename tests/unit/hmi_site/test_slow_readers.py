"""Clients that take too little of what they asked for are cut off, and no others."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from hmi_site.http.request_body import BODY_TIMEOUT_S, MIN_BYTES_PER_TIMEOUT
from hmi_site.http.slow_clients import OPEN_FILES, SlowClientMonitor, _unsent_bytes
from tests.processes import wait_until

pytestmark = pytest.mark.skipif(not OPEN_FILES.is_dir(), reason="the kernel does not tell")

LITTLE = 4096


class Place:
    """A server with a clock of its own, and its clients."""

    def __init__(self, closing: ExitStack) -> None:
        self.now = 0.0
        self._closing = closing
        self._listener = closing.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.monitor = SlowClientMonitor(self._listener.getsockname()[1], clock=lambda: self.now)

    def connect(self) -> tuple[socket.socket, socket.socket]:
        """A client, and the server's end of its connection."""
        client = self._closing.enter_context(socket.socket())
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, LITTLE)
        client.connect(self._listener.getsockname())
        client.settimeout(10)
        server = self._closing.enter_context(self._listener.accept()[0])
        server.setblocking(False)
        return client, server

    def pass_by(self, seconds: float) -> None:
        """So much time, in which is looked often."""
        for _ in range(10):
            self.now += seconds / 10
            self.monitor.check()


@pytest.fixture
def place() -> Iterator[Place]:
    with ExitStack() as closing:
        yield Place(closing)


def fill(server: socket.socket) -> None:
    """Send until the client would have to read first."""
    with suppress(BlockingIOError):
        while True:
            server.send(b"x" * 65536)


def is_reset(server: socket.socket) -> bool:
    """Whether the server can send no more."""
    try:
        server.send(b"x")
    except BlockingIOError:
        return False
    except OSError:
        return True
    return False


def test_who_reads_nothing_is_cut_off_and_who_asks_nothing_is_not(place: Place) -> None:
    (_, idle), (_, stuck) = place.connect(), place.connect()
    fill(stuck)
    place.monitor.check()
    place.pass_by(0.9 * BODY_TIMEOUT_S)
    assert not is_reset(stuck)
    place.pass_by(0.2 * BODY_TIMEOUT_S)
    assert is_reset(stuck)
    assert not is_reset(idle)


def test_who_reads_a_byte_now_and_then_is_cut_off_too(place: Place) -> None:
    client, server = place.connect()
    fill(server)
    for _ in range(12):
        client.recv(10)
        place.pass_by(BODY_TIMEOUT_S / 10)
    assert is_reset(server)


def test_who_reads_steadily_is_served_as_long_as_it_takes(place: Place) -> None:
    client, server = place.connect()
    for _ in range(5):
        left = MIN_BYTES_PER_TIMEOUT + 65536
        while left > 0:
            fill(server)
            left -= len(client.recv(min(left, 65536)))
        place.pass_by(0.9 * BODY_TIMEOUT_S)
    assert not is_reset(server)


def test_time_in_which_nothing_is_to_be_read_does_not_count(place: Place) -> None:
    client, server = place.connect()
    for _ in range(5):
        server.send(b"x")
        assert client.recv(1) == b"x"
        wait_until(lambda: not _unsent_bytes(server))  # its kernel says so a moment later
        place.pass_by(2 * BODY_TIMEOUT_S)
    assert not is_reset(server)
