"""Batches: files of inputs that are answered when nothing else waits."""

from pathlib import Path

from hmi_client.flow import Call, Flow, Item, Pause, ask
from hmi_client.operations.files import Progress, upload
from hmi_client.requests import get, pages, path_of, post
from hmi_client.responses import Batch, from_json

POLL_S = 2.0


def batches(state: str | None = None) -> Flow[None]:
    """The tenant's batches, newest first."""
    return (yield from pages(Batch, "batches", {"state": state}))


def batch(batch_id: str) -> Flow[Batch]:
    """One batch."""
    return (yield from get(Batch, path_of("batches", batch_id)))


def batch_create(model: str, file: Path, *, on_progress: Progress | None = None) -> Flow[Batch]:
    """Send a file of JSON lines, and have a model answer them."""
    sent = yield from upload(file, on_progress=on_progress)
    return from_json(Batch, (yield from post("batches", {"model": model, "upload": sent.id})))


def batch_watch(batch_id: str, *, poll_s: float = POLL_S) -> Flow[None]:
    """Give how a batch stands, again and again until it has ended and what it answered can be fetched."""
    while True:
        now = yield from batch(batch_id)
        yield Item(now)
        if now.has_ended:
            return
        yield Pause(poll_s)


def batch_cancel(batch_id: str) -> Flow[Batch]:
    """End a batch; what is answered by then can be fetched."""
    return from_json(Batch, (yield from post(path_of("batches", batch_id, "cancel"))))


def batch_delete(batch_id: str) -> Flow[None]:
    """Delete a batch that has ended, with what it answered and the inputs that were sent for it."""
    yield from ask(Call("DELETE", path_of("batches", batch_id)))


def batch_results(batch_id: str, into: Path) -> Flow[None]:
    """Fetch the answers of a batch that has ended into a file. NotFound if there are none."""
    return (yield from _fetch(batch_id, "results", into))


def batch_errors(batch_id: str, into: Path) -> Flow[None]:
    """Fetch the lines that have no answer, and why. NotFound if there are none."""
    return (yield from _fetch(batch_id, "errors", into))


def _fetch(batch_id: str, kind: str, into: Path) -> Flow[None]:
    """The file is there whole, or as it was before."""
    partial = into.with_name(f"{into.name}.part")
    try:
        yield from ask(Call("GET", path_of("batches", batch_id, kind), into=partial))
        partial.replace(into)
    finally:
        partial.unlink(missing_ok=True)
