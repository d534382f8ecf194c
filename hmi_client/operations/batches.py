"""Batches: files of inputs that are answered at low priority."""

from pathlib import Path

from hmi_client.flow import ApiRequest, Flow, Item, Sleep, download, get, paginate, post, send, url_path
from hmi_client.operations.files import ProgressCallback, upload_file
from hmi_client.responses import Batch, from_json

POLL_S = 2.0


def list_batches(state: str | None = None) -> Flow[None]:
    """List the tenant's batches, newest first."""
    return (yield from paginate(Batch, "batches", {"state": state}))


def get_batch(batch_id: str) -> Flow[Batch]:
    """Get a batch."""
    return (yield from get(Batch, url_path("batches", batch_id)))


def create_batch(model: str, file: Path, *, on_progress: ProgressCallback | None = None) -> Flow[Batch]:
    """Upload a file of JSON lines and create a batch from it."""
    upload = yield from upload_file(file, on_progress=on_progress)
    return from_json(Batch, (yield from post("batches", {"model": model, "upload": upload.id})))


def watch_batch(batch_id: str, *, poll_s: float = POLL_S) -> Flow[None]:
    """Poll a batch and yield its state, until it is finished and its files can be downloaded."""
    while True:
        batch = yield from get_batch(batch_id)
        yield Item(batch)
        if batch.is_finished:
            return
        yield Sleep(poll_s)


def cancel_batch(batch_id: str) -> Flow[Batch]:
    """Cancel a batch. Its answers so far can be downloaded."""
    return from_json(Batch, (yield from post(url_path("batches", batch_id, "cancel"))))


def delete_batch(batch_id: str) -> Flow[None]:
    """Delete a finished batch with its inputs and results."""
    yield from send(ApiRequest("DELETE", url_path("batches", batch_id)))


def download_batch_results(batch_id: str, path: Path) -> Flow[None]:
    """Download the answers of a finished batch. NotFound if there are none."""
    return (yield from _download(batch_id, "results", path))


def download_batch_errors(batch_id: str, path: Path) -> Flow[None]:
    """Download the lines that failed, with the reasons. NotFound if there are none."""
    return (yield from _download(batch_id, "errors", path))


def _download(batch_id: str, kind: str, path: Path) -> Flow[None]:
    return (yield from download(ApiRequest("GET", url_path("batches", batch_id, kind)), path))
