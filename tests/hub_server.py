"""A small Hugging Face hub on this machine, which can break, refuse and lie."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Final
from urllib.parse import urlsplit

COMMIT: Final = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Hub:
    """The hub, with one model.

    breaks_at: the file that breaks off, and after how many bytes; then the hub is down. refuses: the status
    and the error code of all answers. lies: files with other content than the hub declares. sizes: other
    sizes that it declares. sent: the bytes of each file that were sent. asked: the files and ranges that were
    asked for. tokens: the headers that authorise.
    """

    model: str
    files: dict[str, bytes]
    url: str = ""
    breaks_at: tuple[str, int] | None = None
    refuses: tuple[int, str] | None = None
    lies: dict[str, bytes] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    is_down: bool = False
    sent: dict[str, int] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)

    def about(self) -> bytes:
        """What the API says of the model."""
        siblings = []
        for name, content in self.files.items():
            size = self.sizes.get(name, len(content))
            found = {"rfilename": name, "size": size, "blobId": _git_hash(content)}
            if name.endswith(".safetensors"):
                sha256 = hashlib.sha256(content).hexdigest()
                found["lfs"] = {"sha256": sha256, "size": len(content), "pointerSize": 134}
            siblings.append(found)
        return json.dumps({"id": self.model, "sha": COMMIT, "siblings": siblings}).encode()


def _git_hash(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


@contextmanager
def hub_of(folder: Path, model: str = "acme/tiny") -> Iterator[Hub]:
    """A hub whose one model has the files of a folder."""
    hub = Hub(model, {path.name: path.read_bytes() for path in sorted(folder.iterdir())})

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hub.tokens.add(self.headers.get("Authorization", ""))
            path = urlsplit(self.path).path
            name = path.removeprefix(f"/{hub.model}/resolve/{COMMIT}/")
            if hub.is_down:
                self._answer(503)
            elif hub.refuses:
                self._answer(hub.refuses[0], {"X-Error-Code": hub.refuses[1]})
            elif path == f"/api/models/{hub.model}":
                self._answer(200, {}, hub.about())
            elif name in hub.files:
                self._send_file(name)
            else:
                self._answer(404, {"X-Error-Code": "RepoNotFound"})

        def _send_file(self, name: str) -> None:
            content = hub.lies.get(name, hub.files[name])
            asked = self.headers.get("Range", "")
            start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
            hub.asked.append((name, asked))
            piece = content[start:]
            cut = len(piece)
            if hub.breaks_at and hub.breaks_at[0] == name:
                cut, hub.is_down = hub.breaks_at[1], True
            hub.sent[name] = hub.sent.get(name, 0) + len(piece[:cut])
            headers = {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"} if asked else {}
            self._answer(206 if asked else 200, headers, piece, cut)

        def _answer(
            self,
            status: int,
            headers: dict[str, str] | None = None,
            body: bytes = b"",
            cut: int | None = None,
        ) -> None:
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[:cut])
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
