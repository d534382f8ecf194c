"""Uploads, datasets and corpora."""

import hashlib
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from hmi_client.connection import Connection
from hmi_client.errors import Conflict, ConnectionFailed, FilesRejected, Unavailable
from hmi_client.responses import Check, Corpus, Dataset, DatasetRow, Upload, from_json
from hmi_client.server import json_of, url_path

CHUNK_BYTES = 8 * 2**20
CHUNK_CONTENT_TYPE = "application/offset+octet-stream"
TUS_HEADERS = {"Tus-Resumable": "1.0.0"}
MAX_STALLED_CHUNKS = 5
"""An upload fails after this many chunks in a row that did not advance the server's offset."""
POLL_S = 0.5

DownloadType = Literal["csv", "jsonl"]

ProgressCallback = Callable[[Path, int, int], None]
"""Called with the file, the uploaded bytes and the total bytes."""


class FileMethods(Connection):
    """Uploads, datasets and corpora."""

    def list_datasets(self) -> Iterator[Dataset]:
        """List the tenant's datasets."""
        return self._pages(Dataset, "datasets")

    def list_corpora(self) -> Iterator[Corpus]:
        """List the corpora that the tenant can see."""
        return self._pages(Corpus, "corpora")

    def get_dataset(self, dataset_id: int) -> Dataset:
        """Get a dataset."""
        return self._get(Dataset, url_path("datasets", dataset_id))

    def list_rows(
        self, dataset_id: int, *, split: str = "train", label: str = "", search: str = ""
    ) -> Iterator[DatasetRow]:
        """List the rows of a split with this label and all of these words."""
        query = {"split": split, "label": label or None, "search": search or None}
        return self._pages(DatasetRow, url_path("datasets", dataset_id, "rows"), query)

    def download_split(
        self,
        dataset_id: int,
        split: str,
        path: Path,
        *,
        type: DownloadType = "jsonl",  # noqa: A002 - the API's
    ) -> None:
        """Download a split as CSV or JSON lines, which can be uploaded again."""
        self._save(url_path("datasets", dataset_id, "splits", split), path, params={"type": type})

    def edit_dataset(
        self, dataset_id: int, changes: Sequence[Mapping[str, Any]], *, name: str = ""
    ) -> Dataset:
        """Make a new dataset with changed rows. Each change has ``split``, ``row`` (from 1; none for a new
        row) and ``fields`` (none to leave the row out)."""
        body = {"name": name, "changes": [dict(change) for change in changes]}
        return self._post(Dataset, url_path("datasets", dataset_id, "edits"), body)

    def delete_dataset(self, dataset_id: int) -> None:
        """Delete a dataset. Conflict while a version was made from it."""
        self._request("DELETE", url_path("datasets", dataset_id))

    def delete_corpus(self, corpus_id: int) -> None:
        """Delete a corpus. Conflict while a version was made from it."""
        self._request("DELETE", url_path("corpora", corpus_id))

    def push_dataset(
        self,
        files: Mapping[str, Path],
        *,
        task: str,
        name: str,
        columns: Mapping[str, str] | None = None,
        separator: str | None = None,
        allow_leaks: bool = False,
        skip_invalid_rows: bool = False,
        guess_columns: bool = False,
        check_only: bool = False,
        on_progress: ProgressCallback | None = None,
    ) -> Check:
        """Upload files and create a dataset. The keys are ``train`` and optionally ``dev`` and ``test``.

        With ``check_only`` the files are checked and not stored. FilesRejected lists the invalid rows, which
        ``skip_invalid_rows`` leaves out. ``guess_columns``: without ``columns``, use those with usual names,
        such as ``message`` for ``text``, where the files lack those of the task.
        """
        options: dict[str, Any] = {"task": task, "allow_leaks": allow_leaks}
        if skip_invalid_rows:
            options["skip_invalid_rows"] = True
        if guess_columns and not columns:
            options["guess_columns"] = True
        if columns:
            options["columns"] = dict(columns)
        if separator is not None:
            options["separator"] = separator
        return self._push("dataset", files, name, options, check_only, on_progress)

    def push_corpus(
        self, file: Path, *, name: str, check_only: bool = False, on_progress: ProgressCallback | None = None
    ) -> Check:
        """Upload a text file and create a corpus. With ``check_only`` it is checked and not stored."""
        return self._push("corpus", {"file": file}, name, {}, check_only, on_progress)

    def upload_file(
        self, path: Path, *, on_progress: ProgressCallback | None = None, chunk_bytes: int = CHUNK_BYTES
    ) -> Upload:
        """Upload a file in chunks. An unfinished upload of the same content under the same name is
        resumed."""
        digest = file_sha256(path)
        size = path.stat().st_size
        resumed = self._resumable_upload(_fingerprint(path, digest), size)
        upload_id = resumed.id if resumed else self._create_upload(path, size, digest)
        offset, stalled = resumed.offset if resumed else 0, 0
        with path.open("rb") as file:
            while offset < size:
                if on_progress:
                    on_progress(path, offset, size)
                file.seek(offset)
                new_offset = self._send_chunk(upload_id, offset, file.read(chunk_bytes))
                stalled = 0 if new_offset > offset else stalled + 1
                if stalled == MAX_STALLED_CHUNKS:
                    raise ConnectionFailed(f"The upload of {path.name} stalled. Push it again to resume.")
                offset = new_offset
        if on_progress:
            on_progress(path, size, size)
        return self._get(Upload, url_path("uploads", upload_id))

    def _push(
        self,
        kind: str,
        files: Mapping[str, Path],
        name: str,
        options: Mapping[str, Any],
        check_only: bool,
        on_progress: ProgressCallback | None,
    ) -> Check:
        ids = {}
        for purpose, path in files.items():
            ids[purpose] = self.upload_file(path, on_progress=on_progress).id
        body = {"kind": kind, "name": name, "files": ids, "store": not check_only, **options}
        check = self._post(Check, "checks", body)
        while check.is_active:
            time.sleep(POLL_S)
            check = self._get(Check, url_path("checks", check.id))
        if check.error is not None:
            raise FilesRejected(check.error, check.row_errors)
        return check

    def _resumable_upload(self, fingerprint: str, size: int) -> Upload | None:
        """An earlier upload of the same file that no dataset, corpus or batch has consumed."""
        response = self._request("GET", "uploads", params={"limit": 100})
        uploads = [from_json(Upload, upload) for upload in json_of(response)["results"]]
        same = (each for each in uploads if (each.fingerprint, each.size_bytes) == (fingerprint, size))
        return next(same, None)

    def _create_upload(self, path: Path, size: int, digest: str) -> str:
        metadata = {"filename": path.name, "sha256": digest, "fingerprint": _fingerprint(path, digest)}
        encoded = {
            name: b64encode(value.encode(errors="replace")).decode() for name, value in metadata.items()
        }
        pairs = ",".join(f"{name} {value}" for name, value in encoded.items())
        headers = {"Upload-Length": str(size), "Upload-Metadata": pairs, "Idempotency-Key": uuid4().hex}
        response = self._request("POST", "uploads", headers={**TUS_HEADERS, **headers})
        return str(response.headers["Location"]).rpartition("/")[2]

    def _send_chunk(self, upload_id: str, offset: int, chunk: bytes) -> int:
        """Send a chunk and return the server's new offset, also if the request failed."""
        path = url_path("uploads", upload_id)
        headers = {**TUS_HEADERS, "Upload-Offset": str(offset), "Content-Type": CHUNK_CONTENT_TYPE}
        try:
            response = self._request("PATCH", path, content=chunk, headers=headers, idempotent=False)
        except (Conflict, ConnectionFailed, Unavailable):
            return self._get(Upload, path).offset
        return int(response.headers["Upload-Offset"])


def _fingerprint(path: Path, digest: str) -> str:
    """The identity of an upload: the file's content, and its name, which may say how it is read."""
    return hashlib.sha256(f"{digest} {path.name}".encode(errors="replace")).hexdigest()


def file_sha256(path: Path) -> str:
    """The SHA-256 digest of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
