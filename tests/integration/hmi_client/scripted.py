"""A real HTTP server that answers what a test wrote down for it, in turn, and remembers what it was asked."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Reply:
    """An answer; ``hangs_up``: the connection breaks instead, after the request was read. A ``body`` of bytes
    is sent as it is, any other as JSON."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    hangs_up: bool = False


@dataclass(frozen=True)
class Asked:
    """A request that came. ``body`` is JSON, or the bytes of a form or a file."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class Script:
    """``replies`` to come, and what was ``asked``."""

    url: str = ""
    replies: list[Reply] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)


def refusal(status: int, code: str, kind: str, **headers: str) -> Reply:
    """An error in the API's shape."""
    error = {"type": kind, "code": code, "message": f"It is {code}.", "param": None}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, {"error": error}, named)


def _content(body: Any) -> bytes:
    return body if isinstance(body, bytes) else json.dumps(body).encode()


@contextmanager
def scripted() -> Iterator[Script]:
    """A server at an address of its own."""
    script = Script()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            kind = self.headers.get("Content-Type", "")
            is_file = kind.startswith(("multipart/", "application/offset"))
            parsed = body if is_file else json.loads(body) if body else None
            script.asked.append(Asked(self.command, self.path, dict(self.headers), parsed))
            reply = script.replies.pop(0)
            if reply.hangs_up:
                self.close_connection = True
                return
            content = b"" if reply.body is None else _content(reply.body)
            self.send_response(reply.status)
            for name, value in {"Content-Length": str(len(content)), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815 - the names that it looks for

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        script.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield script
        finally:
            server.shutdown()
            thread.join()
