"""What an attack knows of the product and of the tenant that attacks, and what it sends requests with."""

import json
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Self

import httpx

HERE: Final = "127.0.0.2"
"""Where attacks come from: also on this machine, but another address than the well-behaved tenant's."""
LEAST_BUFFER: Final = 4096
TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Target:
    """The attacker is a tenant: it has a key, an owner who signs in, a model (under ``parent_version``), a
    file and a long dataset. ``mark`` stands in the name of everything that an attack makes, and ``words`` in
    its texts. ``writer`` is a second tenant of the attacker, which has a generative model. ``templated`` is a
    model of it whose root has a hostile chat template, or "" where no such root could be registered.
    ``quotas``: models whose tenants have a small quota of requests a day, with their keys."""

    port: int
    tenant: str
    key: str
    password: str
    hplm: str
    hplm_version: int
    parent_version: int
    file_id: str
    dataset_id: int
    root: str
    mark: str
    words: str
    writer: Mapping[str, str]
    templated: str = ""
    quotas: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str) -> Self:
        """From JSON."""
        return cls(**json.loads(text))

    def written(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))

    @property
    def with_key(self) -> dict[str, str]:
        """The header that names the tenant."""
        return {"Authorization": f"Bearer {self.key}"}

    def http(self, *, key: bool = True) -> httpx.Client:
        """A client of the product, with the tenant's key or without."""
        return httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}",
            headers=self.with_key if key else {},
            timeout=TIMEOUT_S,
            transport=httpx.HTTPTransport(local_address=HERE),
            trust_env=False,
        )

    def signed_in(self) -> httpx.Client:
        """A client in which the tenant's owner is signed in. Raises httpx.HTTPError."""
        http = self.http(key=False)
        sign_in(http, self.tenant, self.password)
        return http

    def writing(self) -> Self:
        """The same as the tenant with the generative model."""
        writer = self.writer
        return replace(
            self,
            tenant=writer["tenant"],
            key=writer["key"],
            password=writer["password"],
            hplm=writer["hplm"],
        )

    def connect(self, *, buffer: int = 0) -> socket.socket:
        """A connection; with so small a buffer for what is received. Raises OSError."""
        connection = socket.socket()
        if buffer:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        connection.settimeout(TIMEOUT_S)
        connection.bind((HERE, 0))
        connection.connect(("127.0.0.1", self.port))
        return connection


def sign_in(http: httpx.Client, login: str, password: str) -> None:
    """Sign a person in with this client, and give it what its requests need besides. Raises
    httpx.HTTPError."""
    http.get("/login/").raise_for_status()
    cookie = next(name for name in http.cookies if name.startswith("hmi_csrf"))
    http.headers["Referer"] = f"{http.base_url}"
    token = {"X-CSRFToken": http.cookies[cookie]}
    http.post("/login/", data={"login": login, "password": password}, headers=token)
    http.headers["X-CSRFToken"] = http.cookies[cookie]


def head(method: str, path: str, headers: Mapping[str, Any]) -> bytes:
    """The beginning of a request, up to its body."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *(f"{n}: {v}" for n, v in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def status(connection: socket.socket) -> int:
    """The status of the answer; 0 where none comes."""
    try:
        line = connection.recv(64).split(b"\r\n")[0].split(b" ")
        return int(line[1]) if len(line) > 1 and line[0].startswith(b"HTTP/") else 0
    except (OSError, ValueError):
        return 0
