"""Batches: files of inputs that are answered at low priority."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hmi_client.operations.files import FileMethods, ProgressCallback
from hmi_client.responses import Batch
from hmi_client.server import url_path

POLL_S = 2.0


class BatchMethods(FileMethods):
    """Batches: files of inputs that are answered at low priority."""

    def list_batches(self, state: str | None = None) -> Iterator[Batch]:
        """List the tenant's batches, newest first."""
        return self._pages(Batch, "batches", {"state": state})

    def get_batch(self, batch_id: str) -> Batch:
        """Get a batch."""
        return self._get(Batch, url_path("batches", batch_id))

    def create_batch(
        self,
        model: str,
        file: Path,
        *,
        columns: Mapping[str, str] | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> Batch:
        """Upload a file of JSON lines, a table (CSV, TSV) or a text file, and create a batch from it.

        ``columns`` of a table: the column of each field of an input, ``input`` for the first. By default
        those with usual names, such as ``text`` or ``message``."""
        upload = self.upload_file(file, on_progress=on_progress)
        body: dict[str, Any] = {"model": model, "upload": upload.id}
        return self._post(Batch, "batches", body | ({"columns": dict(columns)} if columns else {}))

    def watch_batch(self, batch_id: str, *, poll_s: float = POLL_S) -> Iterator[Batch]:
        """Poll a batch and yield its state, until it is finished and its files can be downloaded."""
        while True:
            batch = self.get_batch(batch_id)
            yield batch
            if batch.is_finished:
                return
            time.sleep(poll_s)

    def cancel_batch(self, batch_id: str) -> Batch:
        """Cancel a batch. Its answers so far can be downloaded."""
        return self._post(Batch, url_path("batches", batch_id, "cancel"))

    def delete_batch(self, batch_id: str) -> None:
        """Delete a finished batch with its inputs and results."""
        self._request("DELETE", url_path("batches", batch_id))

    def download_batch_results(self, batch_id: str, path: Path) -> None:
        """Download the answers of a finished batch, of a table as CSV. NotFound if there are none."""
        self._download(batch_id, "results", path)

    def download_batch_errors(self, batch_id: str, path: Path) -> None:
        """Download the lines that failed, with the reasons. NotFound if there are none."""
        self._download(batch_id, "errors", path)

    def _download(self, batch_id: str, kind: str, path: Path) -> None:
        self._save(url_path("batches", batch_id, kind), path)
