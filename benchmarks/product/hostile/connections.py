"""Attacks by connections: those that read nothing, those that send too slowly, bodies that never end."""

import json
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, Final

import httpx

from benchmarks.product.hostile.target import LEAST_BUFFER, Target, head, status

BUNDLE: Final = "/static/drf_spectacular_sidecar/swagger-ui-dist/swagger-ui-bundle.js"
IDLE_DOWNLOADS, IDLE_STATICS, SLOW_SENDERS = 64, 256, 192
REOPENED: Final = 3
"""A connection that the server closes is opened again so many times."""
PROMISED: Final = 200_000
BEAT_S: Final = 1.0
JSON: Final = "application/json"
FORM: Final = "multipart/form-data; boundary=hostile"
UNSENT: Final = 10


def idle_downloads(target: Target, until: float) -> Counter[str]:
    """Downloads of a file of the tenant's own, of which nothing is read."""
    asked = head("GET", f"/v1/files/{target.file_id}/content", target.with_key)
    return _held(target, until, [asked] * IDLE_DOWNLOADS, buffer=LEAST_BUFFER)


def idle_statics(target: Target, until: float) -> Counter[str]:
    """The same of a static file, of strangers."""
    return _held(target, until, [head("GET", BUNDLE, {})] * IDLE_STATICS, buffer=LEAST_BUFFER)


def slow_senders(target: Target, until: float) -> Counter[str]:
    """Bodies that come by a byte a second, with the tenant's key."""
    paths = ["/api/v1/infer", "/api/v1/models", "/v1/embeddings", "/api/v1/webhooks"]
    about = {**target.with_key, "Content-Type": JSON, "Content-Length": PROMISED}
    asked = [head("POST", paths[number % len(paths)], about) for number in range(SLOW_SENDERS)]
    return _held(target, until, asked, sends=True)


def slow_strangers(target: Target, until: float) -> Counter[str]:
    """The same without a key, of JSON and of forms, with a length and in chunks."""
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("/api/v1/infer", {"Content-Type": JSON, "Content-Length": PROMISED}),
        ("/login/", {"Content-Type": FORM, "Content-Length": PROMISED}),
        ("/api/v1/corpora", {"Content-Type": FORM, "Content-Length": PROMISED}),
        ("/api/v1/corpora", {"Content-Type": FORM, "Transfer-Encoding": "chunked"}),
    ]
    asked = [head("POST", *kinds[number % len(kinds)]) for number in range(SLOW_SENDERS)]
    return _held(target, until, asked, sends=True)


@dataclass(frozen=True, slots=True)
class Write:
    """A request that makes something, or computes; ``made`` counts what there is of it."""

    name: str
    method: str
    path: str
    kind: str
    body: bytes
    headers: Mapping[str, str]
    made: Callable[[], int] = lambda: 0


def truncated(target: Target, until: float) -> Counter[str]:
    """Requests whose bodies break off: shorter by ten bytes than their length, or chunked without the last
    chunk; the connection is closed at once, or only to one side so that an answer is seen.

    Counts as ``executed``: what was made all the same, and calls that were answered well.
    """
    found, executed = Counter[str](), Counter[str]()
    with target.http() as http, closing(target.signed_in()) as person:
        writes = _writes(target, http, person)
        before = {write.name: write.made() for write in writes}
        rounds = 0
        while not rounds or time.monotonic() < until:
            rounds += 1
            for write in writes:
                for is_chunked in (False, True):
                    for waits in (False, True):
                        answer = _send_truncated(target, write, is_chunked=is_chunked, waits=waits)
                        found["sent"] += 1
                        found[f"answered {answer}"] += 1
                        executed[write.name] += httpx.codes.is_success(answer)
        time.sleep(BEAT_S)  # what is executed after the sender has gone
        for write in writes:
            executed[write.name] = max(executed[write.name], write.made() - before[write.name])
    found += Counter({f"executed {name}": count for name, count in executed.items()})
    found["executed"] = sum(executed.values())
    return found


def _held(
    target: Target, until: float, asked: Iterable[bytes], *, buffer: int = 0, sends: bool = False
) -> Counter[str]:
    """Hold a connection for each request until the end; those that are closed are opened again, a few
    times."""
    found, requests = Counter[str](), list(asked)
    left = REOPENED * len(requests)
    held = [_opened(target, request, buffer) for request in requests]
    found["connections"] = len(held)
    while time.monotonic() < until:
        for place, connection in enumerate(held):
            if connection is not None and not _is_closed(connection, sends=sends):
                continue
            if connection is not None:
                connection.close()
                held[place] = None
                found["closed by the server"] += 1
            if left and time.monotonic() < until:
                left -= 1
                found["connections"] += 1
                held[place] = _opened(target, requests[place], buffer)
        time.sleep(min(BEAT_S, max(0.0, until - time.monotonic())))
    for connection in filter(None, held):
        connection.close()
    return found


def _opened(target: Target, request: bytes, buffer: int) -> socket.socket | None:
    try:
        connection = target.connect(buffer=buffer)
        connection.sendall(request)
        connection.setblocking(False)
    except OSError:
        return None
    return connection


def _is_closed(connection: socket.socket, *, sends: bool) -> bool:
    """Whether the server has ended it; otherwise, if it ``sends``, it has sent a byte. A server that has
    answered a sender has let it go."""
    try:
        if sends:
            connection.send(b" ")
            return len(connection.recv(1, socket.MSG_PEEK)) >= 0
    except BlockingIOError:
        return False
    except OSError:
        return True
    return False


def _send_truncated(target: Target, write: Write, *, is_chunked: bool, waits: bool) -> int:
    about: dict[str, Any] = {**write.headers, "Content-Type": write.kind}
    if is_chunked:
        sent = head(write.method, write.path, {**about, "Transfer-Encoding": "chunked"})
        sent += b"%x\r\n%s\r\n" % (len(write.body), write.body)
    else:
        about["Content-Length"] = len(write.body) + UNSENT
        sent = head(write.method, write.path, about) + write.body
    with suppress(OSError), target.connect() as connection:
        connection.sendall(sent)
        if waits:
            connection.shutdown(socket.SHUT_WR)
            connection.settimeout(5.0)
            return status(connection)
    return 0


def _writes(target: Target, http: httpx.Client, person: httpx.Client) -> list[Write]:
    mark, key, api = target.mark, target.with_key, "/api/v1"
    model = f"{target.tenant}/{target.hplm}"
    browser = {name: person.headers[name] for name in ("X-CSRFToken", "Referer")}
    browser["Cookie"] = "; ".join(f"{name}={value}" for name, value in person.cookies.items())
    keys, hooks = f"{api}/tenants/{target.tenant}/api-keys", f"{api}/webhooks"

    def among(path: str, field: str, client: httpx.Client = http) -> Callable[[], int]:
        def count() -> int:
            answer = client.get(path, params={"limit": 1000})
            answer.raise_for_status()
            rows = answer.json()
            rows = rows if isinstance(rows, list) else rows.get("results", rows.get("data"))
            return sum(mark in str(row.get(field)) for row in rows)

        return count

    def sent(value: object) -> bytes:
        return json.dumps(value).encode()

    webhook = {"url": f"https://example.org/{mark}", "kinds": ["job.failed"]}
    text = form({"name": f"{mark} cut"}, {"file": ("a.txt", b"one line of a text\n" * 30)})
    file = form({"purpose": "batch"}, {"file": (f"{mark}-cut.jsonl", b'{"custom_id": "1"}\n')})
    lines = form({"model": target.hplm}, {"file": (f"{mark}-cut.jsonl", b'"a text"\n')})
    return [
        Write("webhook", "POST", hooks, JSON, sent(webhook), key, among(hooks, "url")),
        Write("corpus", "POST", f"{api}/corpora", FORM, text, key, among(f"{api}/corpora", "name")),
        Write("file", "POST", "/v1/files", FORM, file, key, among("/v1/files", "filename")),
        Write("batch", "POST", f"{api}/batches", FORM, lines, key, among(f"{api}/batches", "filename")),
        Write(
            "description",
            "PATCH",
            f"{api}/models/{target.hplm}",
            JSON,
            sent({"description": mark}),
            key,
            among(f"{api}/models", "description"),
        ),
        Write(
            "API key", "POST", keys, JSON, sent({"name": mark, "scopes": ["infer"]}), browser,
            among(keys, "name", person),
        ),
        Write("infer", "POST", f"{api}/infer", JSON, sent({"model": model, "inputs": ["a"]}), key),
        Write("/v2", "POST", f"/v2/models/{target.hplm}/infer", JSON, sent(OIP), key),
    ]  # fmt: skip


OIP: Final = {"inputs": [{"name": "TEXT", "shape": [1], "datatype": "BYTES", "data": ["a text"]}]}


def form(fields: Mapping[str, str], files: Mapping[str, tuple[str, bytes]]) -> bytes:
    """The body of a form, with the boundary of FORM."""
    parts = [f'name="{name}"\r\n\r\n{value}'.encode() for name, value in fields.items()]
    parts += [
        f'name="{name}"; filename="{filename}"\r\nContent-Type: text/plain\r\n\r\n'.encode() + content
        for name, (filename, content) in files.items()
    ]
    lead = b"--hostile\r\nContent-Disposition: form-data; "
    return b"\r\n".join(lead + part for part in parts) + b"\r\n--hostile--\r\n"
