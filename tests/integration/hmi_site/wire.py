"""Requests written byte by byte to a web server, as no HTTP client would send them."""

import json
import select
import socket
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Said:
    """What the server answered: its status, 0 if it only closed the connection."""

    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def code(self) -> str:
        """The code of the error that it tells in the shape of the API."""
        return str(json.loads(self.content)["error"]["code"])

    def json(self) -> Any:
        """Its content."""
        return json.loads(self.content)


class Wire:
    """One connection to the server at the URL."""

    def __init__(self, url: str, *, receive_buffer: int | None = None) -> None:
        address = urlsplit(url)
        self.socket = socket.socket()
        self.socket.settimeout(TIMEOUT_S)
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect((address.hostname, address.port))

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def begin(self, method: str, path: str, *headers: str) -> None:
        """Send the head of a request."""
        lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *headers]
        self.send("\r\n".join([*lines, "", ""]).encode())

    def send(self, content: bytes) -> None:
        """Send these bytes as they are."""
        self.socket.sendall(content)

    def say_no_more(self) -> None:
        """Send the end of the connection, and go on reading."""
        self.socket.shutdown(socket.SHUT_WR)

    def has_something(self) -> bool:
        """Whether the server has sent something that was not read."""
        return bool(select.select([self.socket], [], [], 0)[0])

    def answer(self) -> Said:
        """The answer, as soon as it is there."""
        received = b""
        while b"\r\n\r\n" not in received:
            piece = self._receive()
            if not piece:
                return Said(0, {}, received)
            received += piece
        head, _, content = received.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        while len(content) < int(headers.get("content-length", 0)) and (piece := self._receive()):
            content += piece
        return Said(int(first.split()[1]), headers, content)

    def _receive(self) -> bytes:
        try:
            return self.socket.recv(65536)
        except ConnectionError:
            return b""


def chunk(content: bytes) -> bytes:
    """One chunk of a chunked body."""
    return f"{len(content):x}\r\n".encode() + content + b"\r\n"
