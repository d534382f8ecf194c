"""Choosing the web port."""

import errno
import os
import socket
from dataclasses import dataclass

from hmi_site.embedded.process import ChildError

PORTS_TRIED = 100


@dataclass(frozen=True)
class Port:
    """A port that is ours while `claim` is open."""

    address: str
    number: int
    taken: tuple[int, ...]
    claim: socket.socket


def choose_port(host: str, wanted: int) -> Port:
    """The first free port from `wanted` on, and those passed over because they were taken."""
    family, address = _resolve(host)
    taken: list[int] = []
    for number in range(wanted, min(wanted + PORTS_TRIED, 65536)):
        if _free(family, address, number) and (claim := _claim(number)):
            return Port(address, number, tuple(taken), claim)
        taken.append(number)
    raise ChildError(f"No port from {wanted} to {wanted + PORTS_TRIED - 1} is free; set HMI_PORT.")


def _claim(number: int) -> socket.socket | None:
    """Keep other launchers of this user off the port, until the socket is closed or this process ends.

    The web server shares its port (SO_REUSEPORT) with any process of the same user, so two launchers that
    start at the same moment would both find it free and both get it.
    """
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        claim.bind(f"\0hmi-port-{os.getuid()}-{number}")  # abstract: leaves no file
    except OSError as error:
        claim.close()
        if error.errno == errno.EADDRINUSE:
            return None
        raise
    return claim


def _free(family: int, address: str, number: int) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, number))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise ChildError(f"Port {number} of {address} cannot be used: {error.strerror}.") from None
    return True


def _resolve(host: str) -> tuple[int, str]:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise ChildError(f"HMI_HOST is {host!r}, which has no address: {error.strerror}.") from None
    return family, str(address[0])
