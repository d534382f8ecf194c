"""Granian on a socket that the launcher opens, and the choice of its port."""

import errno
import os
import socket
from dataclasses import dataclass
from typing import Any, Final

from granian import cli, net
from granian.server.mp import MPServer

from hmi_site.embedded.process import ChildError

MAX_PORTS_TRIED: Final = 100
BACKLOG: Final = 1024
"""Connections that wait for the web server, also during its restart."""
LISTENER_FD: Final = "HMI_WEB_LISTENER"
"""The environment variable with the file descriptor of the open socket."""


@dataclass(frozen=True)
class Port:
    """A port with its open ``listener``, and the ports before it that are in use."""

    address: str
    number: int
    taken: tuple[int, ...]
    listener: socket.socket


def choose_port(host: str, first: int) -> Port:
    """Listen on the first free port from ``first`` on."""
    family, address = _resolve(host)
    taken: list[int] = []
    for number in range(first, min(first + MAX_PORTS_TRIED, 65536)):
        if (listener := _listen(family, address, number)) is not None:
            return Port(address, number, tuple(taken), listener)
        taken.append(number)
    raise ChildError(f"No port from {first} to {first + MAX_PORTS_TRIED - 1} is free; set HMI_PORT.")


def _listen(family: int, address: str, number: int) -> socket.socket | None:
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, number))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            return None
        raise ChildError(f"Port {number} of {address} cannot be used: {error.strerror}.") from None
    return listener


def _resolve(host: str) -> tuple[int, str]:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise ChildError(f"HMI_HOST {host!r} cannot be resolved: {error.strerror}.") from None
    return family, str(address[0])


class InheritedSocketServer(MPServer):
    """Granian's server on an inherited socket. By default each of its workers opens one."""

    def _init_shared_socket(self) -> None:
        holder: Any = vars(net)["SocketHolder"]  # its stub lacks the arguments: number, is_uds, backlog
        self._shd = holder(int(os.environ[LISTENER_FD]), False, self.backlog)
        self._ssp = self._sso = None


if __name__ == "__main__":
    cli.Server = InheritedSocketServer  # type: ignore[attr-defined]
    cli.entrypoint()  # type: ignore[no-untyped-call]
