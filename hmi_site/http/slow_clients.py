"""Clients who do not read what they asked for.

The web server keeps a connection, and what is to be sent on it, until the client has taken it. How much a
client takes only the kernel knows, so it is asked: each connection with something left to send has to take
so much each minute, as bodies have to come (``patience``), or is reset. Where the kernel does not tell (it is
not Linux), nobody is reset.
"""

import array
import fcntl
import logging
import os
import socket
import stat
import struct
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hmi_site.http.request_body import BodyTimeout
from inference.periodic_thread import PeriodicThread

log = logging.getLogger(__name__)

EVERY_S: Final = 5.0
OPEN_FILES: Final = Path("/proc/self/fd")
ACKNOWLEDGED: Final = struct.Struct("120xQ")
"""Where Linux's `tcp_info` has the bytes that the other side has taken (`tcpi_bytes_acked`)."""
RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


@dataclass(slots=True)
class _Reader:
    taken: int
    seen_at: float
    patience: BodyTimeout


class SlowClientMonitor:
    """Resets connections to this port of this process whose clients take too little, when ``look`` is
    called."""

    def __init__(self, port: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._port, self._clock = port, clock
        self._readers: dict[int, _Reader] = {}
        """Those who have something left to take, by the number of their socket."""

    def watch(self) -> None:
        """Look every few seconds from now on, in a thread of its own."""
        if OPEN_FILES.is_dir():
            PeriodicThread("slow readers", self._try_look, interval_s=EVERY_S).start()

    def look(self) -> None:
        """What each client has taken since the last time."""
        waiting: dict[int, _Reader] = {}
        for number, connection in _connections(self._port):
            with connection, suppress(OSError):  # it may be gone
                if _unsent(connection) and (reader := self._seen(number, connection)):
                    waiting[number] = reader
        self._readers = waiting

    def _seen(self, number: int, connection: socket.socket) -> _Reader | None:
        """None where it was reset."""
        now, taken = self._clock(), _taken(connection)
        reader = self._readers.get(number)
        if reader is None:
            return _Reader(taken, now, BodyTimeout())
        reader.patience.came(taken - reader.taken, after_s=now - reader.seen_at)
        reader.taken, reader.seen_at = taken, now
        if reader.patience.left_s:
            return reader
        log.info("A client that reads too slowly is cut off: %s", connection.getpeername()[0])
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        connection.shutdown(socket.SHUT_RDWR)
        return None

    def _try_look(self) -> None:
        try:
            self.look()
        except Exception:
            log.exception("Slow readers could not be looked for")


def _connections(port: int) -> Iterator[tuple[int, socket.socket]]:
    """This process's accepted connections to the port, each with a number that no other has meanwhile."""
    for file in OPEN_FILES.iterdir():
        with suppress(OSError):
            number = os.dup(int(file.name))
            about = os.fstat(number)
            if not stat.S_ISSOCK(about.st_mode):
                os.close(number)
                continue
            connection = socket.socket(fileno=number)
            if _is_to(port, connection):
                yield about.st_ino, connection
            else:
                connection.close()


def _is_to(port: int, connection: socket.socket) -> bool:
    if connection.family not in (socket.AF_INET, socket.AF_INET6) or connection.type != socket.SOCK_STREAM:
        return False
    is_listening = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    return not is_listening and connection.getsockname()[1] == port


def _unsent(connection: socket.socket) -> int:
    """The bytes that wait in the kernel until the client takes them."""
    waiting = array.array("i", [0])
    fcntl.ioctl(connection, termios.TIOCOUTQ, waiting)
    return waiting[0]


def _taken(connection: socket.socket) -> int:
    told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, ACKNOWLEDGED.size)
    return int(ACKNOWLEDGED.unpack(told)[0])
