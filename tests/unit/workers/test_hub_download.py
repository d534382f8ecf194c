"""Checkpoints are downloaded from a hub that breaks, refuses and lies; what breaks is continued."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub.constants
import huggingface_hub.file_download
import pytest
from pytest_django.fixtures import Settings

from inference.errors import HplmError
from inference.hplm.checkpoint import open_checkpoint
from inference.machine_memory import machine_bytes
from tenants.base import disk
from tenants.base.child_process import WorkerStopping
from tenants.base.errors import ErrorCode, HmiError
from tests.hub_server import Hub, hub_of
from tests.unit.tiny import tiny_checkpoint
from versiontree.artifact_store import ArtifactStore
from versiontree.jobs.models import Job
from workers.hub_download import STAGE, local_checkpoint
from workers.training.progress import Cancelled

WEIGHTS = "model.safetensors"
CHUNK = 1024
"""Bytes that the hub's client writes at once."""


class Progress:
    """Keeps the progress of a download; raises `error` at the first report beyond `fails_at` bytes."""

    def __init__(self, error: Exception | None = None, fails_at: int = 0) -> None:
        self.stages: list[tuple[str, int]] = []
        self.steps: list[int] = []
        self._error, self._fails_at = error, fails_at

    def start_stage(self, name: str, total: int) -> None:
        self.stages.append((name, total))

    def report(self, step: int, **metrics: float) -> None:
        self.steps.append(step)
        if self._error is not None and step > self._fails_at:
            raise self._error

    def raise_if_cancelled(self) -> None: ...


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint with files that nobody reads."""
    folder = tiny_checkpoint(tmp_path_factory.mktemp("published") / "tiny")
    (folder / "pytorch_model.bin").write_bytes(b"cos\nsystem\n")
    (folder / "README.md").write_text("About it.")
    (folder / "consolidated.safetensors").write_bytes(b"the same weights again")
    return folder


@pytest.fixture
def hub(published: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr(huggingface_hub.constants, "DOWNLOAD_CHUNK_SIZE", CHUNK)
    monkeypatch.setattr(huggingface_hub.file_download, "time", SimpleNamespace(sleep=lambda _: None))
    with hub_of(published) as running:
        settings.HF_ENDPOINT = running.url
        yield running


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "artifacts")


@pytest.fixture
def job() -> Job:
    return Job(pk=uuid.uuid4(), params={"source": "acme/tiny"})


def left(store: ArtifactStore) -> list[Path]:
    """The files in the store."""
    return [path for path in store.root.rglob("*") if path.is_file()]


def refused(job: Job, store: ArtifactStore) -> HmiError:
    with pytest.raises(HmiError) as caught, local_checkpoint(job, store, Progress()):
        pass
    return caught.value


def test_what_a_checkpoint_needs_is_downloaded_and_removed_when_it_was_used(
    hub: Hub, job: Job, store: ArtifactStore, published: Path
) -> None:
    progress = Progress()
    with local_checkpoint(job, store, progress) as folder:
        assert open_checkpoint(folder).sha256 == open_checkpoint(published).sha256
        assert {path.name for path in folder.iterdir()} == {"config.json", "tokenizer.json", WEIGHTS}
    size = sum(hub.sent.values())
    assert progress.stages == [(STAGE, size)]
    assert (progress.steps[-1], sorted(progress.steps)) == (size, progress.steps)
    assert left(store) == []


def test_a_download_that_broke_continues_where_it_stopped(hub: Hub, job: Job, store: ArtifactStore) -> None:
    size = len(hub.files[WEIGHTS])
    hub.breaks_at = (WEIGHTS, size // 2)
    error = refused(job, store)
    assert error.code == ErrorCode.CHECKPOINT_UNAVAILABLE
    assert "Retry the job" in error.message
    hub.breaks_at, hub.is_down = None, False
    hub.asked.clear()
    with local_checkpoint(job, store, Progress()) as folder:
        assert open_checkpoint(folder)
    asked = dict(hub.asked)
    assert asked.keys() == {WEIGHTS, "tokenizer.json"}
    start = int(asked[WEIGHTS].removeprefix("bytes=").removesuffix("-"))
    assert size // 2 - CHUNK < start <= size // 2
    assert hub.sent[WEIGHTS] - size < CHUNK
    assert left(store) == []


def test_what_an_attempt_has_is_there_for_the_next_without_the_hub(
    hub: Hub, job: Job, store: ArtifactStore
) -> None:
    with pytest.raises(WorkerStopping), local_checkpoint(job, store, Progress()):
        raise WorkerStopping
    hub.is_down = True
    with local_checkpoint(job, store, Progress()) as folder:
        assert open_checkpoint(folder)


@pytest.mark.parametrize("fails_at", [0, 20_000])
def test_a_cancelled_download_leaves_nothing(hub: Hub, job: Job, store: ArtifactStore, fails_at: int) -> None:
    with pytest.raises(Cancelled), local_checkpoint(job, store, Progress(Cancelled(), fails_at)):
        pass
    assert hub.sent
    assert left(store) == []


@pytest.mark.parametrize(
    ("refuses", "code", "said"),
    [
        ((404, "RepoNotFound"), ErrorCode.CHECKPOINT_NOT_FOUND, "no such model"),
        ((401, "RepoNotFound"), ErrorCode.CHECKPOINT_NOT_FOUND, "HF_TOKEN"),
        ((401, ""), ErrorCode.CHECKPOINT_UNAVAILABLE, "HF_TOKEN is not valid"),
        ((403, "GatedRepo"), ErrorCode.CHECKPOINT_UNAVAILABLE, "accept its licence"),
        ((403, ""), ErrorCode.CHECKPOINT_UNAVAILABLE, "refuses acme/tiny"),
        ((500, ""), ErrorCode.CHECKPOINT_UNAVAILABLE, "answered 500"),
        ((200, ""), ErrorCode.CHECKPOINT_UNAVAILABLE, "like a hub"),
    ],
)
def test_a_hub_that_refuses_is_named_with_what_to_do(
    hub: Hub, job: Job, store: ArtifactStore, refuses: tuple[int, str], code: ErrorCode, said: str
) -> None:
    hub.refuses = refuses
    error = refused(job, store)
    assert (error.code, said in error.message) == (code, True)
    assert left(store) == []


@pytest.mark.parametrize(
    ("endpoint", "shown"),
    [
        ("http://127.0.0.1:1", "http://127.0.0.1:1"),
        ("http://me:canary@127.0.0.1:1", "http://[hidden]@127.0.0.1:1"),
        ("nowhere", "nowhere"),
    ],
)
def test_a_hub_that_cannot_be_reached_is_named(
    job: Job, store: ArtifactStore, settings: Settings, endpoint: str, shown: str
) -> None:
    settings.HF_ENDPOINT = endpoint
    error = refused(job, store)
    assert (error.code, shown in error.message) == (ErrorCode.CHECKPOINT_UNAVAILABLE, True)
    assert "canary" not in error.message


@pytest.mark.parametrize(("name", "said"), [("longer", "larger than"), ("other", "not the file")])
def test_a_file_that_is_not_what_the_hub_declares_is_refused(
    hub: Hub, job: Job, store: ArtifactStore, name: str, said: str
) -> None:
    content = hub.files[WEIGHTS]
    hub.lies[WEIGHTS] = {"longer": content + bytes(10 * CHUNK), "other": content[:-1] + b"?"}[name]
    error = refused(job, store)
    assert (error.code, said in error.message) == (ErrorCode.UNSUPPORTED_CHECKPOINT, True)
    assert left(store) == []


def test_pickled_weights_are_refused_before_anything_is_downloaded(
    hub: Hub, job: Job, store: ArtifactStore
) -> None:
    del hub.files[WEIGHTS]
    error = refused(job, store)
    assert (error.code, "pytorch_model.bin" in error.message) == (ErrorCode.PICKLED_CHECKPOINT, True)
    assert hub.sent == {}


def test_a_download_that_the_disk_cannot_hold_is_refused_before_it_starts(
    hub: Hub, job: Job, store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = disk.DiskSpace(Path("/"), 0, total=100_000, free=10_000)
    monkeypatch.setattr(disk, "disk_space", lambda _: full)
    assert refused(job, store).code == ErrorCode.OUT_OF_DISK
    assert (hub.sent, left(store)) == ({}, [])


def test_weights_beyond_the_memory_are_refused_before_the_download(
    hub: Hub, job: Job, store: ArtifactStore
) -> None:
    hub.sizes[WEIGHTS] = machine_bytes() + 1
    with pytest.raises(HplmError, match="memory") as caught, local_checkpoint(job, store, Progress()):
        pass
    assert (caught.value.code, hub.sent, left(store)) == ("out_of_memory", {}, [])


def test_a_folder_is_taken_as_it_is(store: ArtifactStore, published: Path) -> None:
    job = Job(pk=uuid.uuid4(), params={"source": str(published)})
    with local_checkpoint(job, store, Progress()) as folder:
        assert folder == published
    assert published.is_dir()
