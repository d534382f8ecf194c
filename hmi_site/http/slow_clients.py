"""Resets connections of clients that read their responses too slowly (Linux only).

The web server holds a connection and its unsent bytes until the client has read them. Only the kernel knows
how much a client reads. So each connection with unsent bytes is checked every few seconds, and must read as
fast as bodies must arrive (`BodyTimeout`).
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

CHECK_INTERVAL_S: Final = 5.0
OPEN_FILES: Final = Path("/proc/self/fd")
TCP_INFO_BYTES_ACKED: Final = struct.Struct("120xQ")
"""The position of `tcpi_bytes_acked` in Linux's `tcp_info`."""
RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


@dataclass(slots=True)
class _Reader:
    acked_bytes: int
    checked_at: float
    timeout: BodyTimeout


class SlowClientMonitor:
    """Resets slow connections to one port of this process at each `check`."""

    def __init__(self, port: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._port, self._clock = port, clock
        self._readers: dict[int, _Reader] = {}
        """Clients with unsent bytes, by the inode of their socket."""

    def start(self) -> None:
        """Check every few seconds in a background thread."""
        if OPEN_FILES.is_dir():
            PeriodicThread("slow-clients", self._try_check, interval_s=CHECK_INTERVAL_S).start()

    def check(self) -> None:
        """Reset each client that has read too little since it has unsent bytes."""
        readers: dict[int, _Reader] = {}
        for inode, connection in _connections(self._port):
            with connection, suppress(OSError):  # it may be gone
                if _unsent_bytes(connection) and (reader := self._checked(inode, connection)):
                    readers[inode] = reader
        self._readers = readers

    def _checked(self, inode: int, connection: socket.socket) -> _Reader | None:
        """The reader with its remaining time; None if it was reset."""
        now, acked_bytes = self._clock(), _acked_bytes(connection)
        reader = self._readers.get(inode)
        if reader is None:
            return _Reader(acked_bytes, now, BodyTimeout())
        reader.timeout.received(acked_bytes - reader.acked_bytes, after_s=now - reader.checked_at)
        reader.acked_bytes, reader.checked_at = acked_bytes, now
        if reader.timeout.left_s:
            return reader
        log.info("Connection reset, the client reads too slowly: %s", connection.getpeername()[0])
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        connection.shutdown(socket.SHUT_RDWR)
        return None

    def _try_check(self) -> None:
        try:
            self.check()
        except Exception:
            log.exception("Slow clients could not be checked")


def _connections(port: int) -> Iterator[tuple[int, socket.socket]]:
    """This process's accepted connections to the port, each with the inode of its socket."""
    for file in OPEN_FILES.iterdir():
        with suppress(OSError):
            descriptor = os.dup(int(file.name))
            status = os.fstat(descriptor)
            if not stat.S_ISSOCK(status.st_mode):
                os.close(descriptor)
                continue
            connection = socket.socket(fileno=descriptor)
            if _is_accepted_on(port, connection):
                yield status.st_ino, connection
            else:
                connection.close()


def _is_accepted_on(port: int, connection: socket.socket) -> bool:
    if connection.family not in (socket.AF_INET, socket.AF_INET6) or connection.type != socket.SOCK_STREAM:
        return False
    is_listening = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    return not is_listening and connection.getsockname()[1] == port


def _unsent_bytes(connection: socket.socket) -> int:
    """Bytes in the kernel's send buffer."""
    size = array.array("i", [0])
    fcntl.ioctl(connection, termios.TIOCOUTQ, size)
    return size[0]


def _acked_bytes(connection: socket.socket) -> int:
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES_ACKED.size)
    return int(TCP_INFO_BYTES_ACKED.unpack(info)[0])
