"""Uploading files, and making corpora and datasets of them."""

import hashlib
from base64 import b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from hmi_client.errors import Conflict, ConnectionFailed, FilesRefused, Unavailable
from hmi_client.flow import Call, Flow, Pause, ask
from hmi_client.requests import get, pages, path_of, post
from hmi_client.responses import Check, Corpus, Dataset, Upload, from_json

PIECE_BYTES = 8 * 2**20
PIECE_TYPE = "application/offset+octet-stream"
TUS = {"Tus-Resumable": "1.0.0"}
FRUITLESS = 5
"""Pieces in a row of which nothing arrived, before an upload is given up."""
POLL_S = 0.5

Progress = Callable[[Path, int, int], None]
"""Told the file, how many bytes of it are there, and how many it has."""


def datasets() -> Flow[None]:
    """The tenant's datasets."""
    return (yield from pages(Dataset, "datasets"))


def corpora() -> Flow[None]:
    """The corpora that the tenant sees."""
    return (yield from pages(Corpus, "corpora"))


def dataset_push(
    files: Mapping[str, Path],
    *,
    task: str,
    name: str,
    columns: Mapping[str, str] | None = None,
    separator: str | None = None,
    allow_leaks: bool = False,
    store: bool = True,
    on_progress: Progress | None = None,
) -> Flow[Check]:
    """Make a dataset of files: ``train``, and perhaps ``dev`` and ``test``. Without ``store`` they are only
    checked. FilesRefused has the bad rows."""
    options: dict[str, Any] = {"task": task, "allow_leaks": allow_leaks}
    if columns:
        options["columns"] = dict(columns)
    if separator is not None:
        options["separator"] = separator
    return (yield from _push("dataset", files, name, options, store, on_progress))


def corpus_push(
    file: Path, *, name: str, store: bool = True, on_progress: Progress | None = None
) -> Flow[Check]:
    """Make a corpus of a text file."""
    return (yield from _push("corpus", {"file": file}, name, {}, store, on_progress))


def upload(
    path: Path, *, on_progress: Progress | None = None, piece_bytes: int = PIECE_BYTES
) -> Flow[Upload]:
    """Send a file, in pieces. What an earlier attempt at the same content brought there is not sent again."""
    digest = _sha256(path)
    size = path.stat().st_size
    known = yield from _begun(digest, size)
    upload_id = known.id if known else (yield from _begin(path, size, digest))
    offset, fruitless = known.offset if known else 0, 0
    with path.open("rb") as file:
        while offset < size:
            if on_progress:
                on_progress(path, offset, size)
            file.seek(offset)
            arrived = yield from _send(upload_id, offset, file.read(piece_bytes))
            fruitless = 0 if arrived > offset else fruitless + 1
            if fruitless == FRUITLESS:
                raise ConnectionFailed(f"Nothing more of {path.name} arrives. Push it again to go on.")
            offset = arrived
    if on_progress:
        on_progress(path, size, size)
    return (yield from get(Upload, path_of("uploads", upload_id)))


def _push(
    kind: str,
    files: Mapping[str, Path],
    name: str,
    options: Mapping[str, Any],
    store: bool,
    on_progress: Progress | None,
) -> Flow[Check]:
    ids = {}
    for purpose, path in files.items():
        ids[purpose] = (yield from upload(path, on_progress=on_progress)).id
    body = {"kind": kind, "name": name, "files": ids, "store": store, **options}
    check = from_json(Check, (yield from post("checks", body)))
    while check.is_active:
        yield Pause(POLL_S)
        check = yield from get(Check, path_of("checks", check.id))
    if check.error is not None:
        raise FilesRefused(check.error, check.row_errors)
    return check


def _begun(digest: str, size: int) -> Flow[Upload | None]:
    """An upload of the same content that was begun before and is not used up."""
    response = yield from ask(Call("GET", "uploads", {"limit": 100}))
    uploads = [from_json(Upload, one) for one in response.json()["results"]]
    return next((one for one in uploads if one.fingerprint == digest and one.size_bytes == size), None)


def _begin(path: Path, size: int, digest: str) -> Flow[str]:
    metadata = {"filename": path.name, "sha256": digest, "fingerprint": digest}
    pairs = ",".join(f"{name} {b64encode(value.encode()).decode()}" for name, value in metadata.items())
    asked = {"Upload-Length": str(size), "Upload-Metadata": pairs, "Idempotency-Key": uuid4().hex}
    response = yield from ask(Call("POST", "uploads", headers={**TUS, **asked}))
    return str(response.headers["Location"]).rpartition("/")[2]


def _send(upload_id: str, offset: int, piece: bytes) -> Flow[int]:
    """How much is there after a piece was sent, whatever became of it."""
    path = path_of("uploads", upload_id)
    headers = {**TUS, "Upload-Offset": str(offset), "Content-Type": PIECE_TYPE}
    try:
        call = Call("PATCH", path, content=piece, headers=headers, repeatable=False)
        response = yield from ask(call)
    except (Conflict, ConnectionFailed, Unavailable):
        return (yield from get(Upload, path)).offset  # the server knows best
    return int(response.headers["Upload-Offset"])


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
