"""Uploaded files on disk."""

import hashlib
import io
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tenants.base.disk import copy_file, remove_stale_workspaces, workspace
from tenants.base.errors import ErrorCode
from tenants.datasets.append_only_file import write_stream
from tenants.datasets.storage import (
    FileDigest,
    StoredFile,
    UploadStore,
    copy_verified,
    digest_file,
    verify_file,
)
from tests.unit.tenants.files import refused

CONTENT = b"some text\n"
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def store(tmp_path: Path) -> UploadStore:
    return UploadStore(tmp_path / "uploads")


def test_a_file_is_placed_under_its_checksum(store: UploadStore) -> None:
    with store.workspace() as folder:
        measured = write_stream(io.BytesIO(CONTENT), folder / "a", name="a.txt", limit=100)
        assert measured == digest_file(folder / "a") == FileDigest(DIGEST, len(CONTENT))
        store.add(folder / "a", measured)
    assert (store.root / DIGEST[:2] / DIGEST).read_bytes() == CONTENT


def put(store: UploadStore) -> Path:
    with store.workspace() as folder:
        return store.add(
            folder / "a", write_stream(io.BytesIO(CONTENT), folder / "a", name="a.txt", limit=100)
        )


def test_the_same_content_is_stored_once(store: UploadStore) -> None:
    assert put(store) == put(store)
    assert [path for path in store.root.rglob("*") if path.is_file()] == [store.path(DIGEST)]


def test_a_stored_file_is_read_only_and_can_still_be_discarded(store: UploadStore) -> None:
    assert put(store).stat().st_mode & 0o777 == 0o400
    assert put(store).stat().st_mode & 0o777 == 0o400
    store.discard(DIGEST)
    assert not store.path(DIGEST).exists()


def test_a_stored_file_that_was_damaged_is_replaced(store: UploadStore) -> None:
    for content in (CONTENT[::-1], b""):
        damaged = put(store)
        damaged.chmod(0o644)
        damaged.write_bytes(content)
        assert put(store).read_bytes() == CONTENT


@pytest.mark.parametrize("folder", ["/dev/shm", "/tmp"])
def test_a_copy_has_the_same_bytes_and_a_life_of_its_own_on_any_disk(tmp_path: Path, folder: str) -> None:
    source = tmp_path / "source"
    source.write_bytes(os.urandom(3_000_000))
    with tempfile.TemporaryDirectory(dir=folder) as elsewhere:
        target = Path(elsewhere) / "target"
        copy_file(source, target)
        assert target.read_bytes() == source.read_bytes()
        source.write_bytes(b"changed")
        assert target.stat().st_size == 3_000_000
        with pytest.raises(FileExistsError):
            copy_file(source, target)


def test_a_copy_that_is_not_what_was_measured_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(CONTENT)
    kept = StoredFile(source, digest_file(source))
    copy_verified(kept, tmp_path / "same", name="a.txt")
    source.write_bytes(CONTENT[::-1])
    error = refused(ErrorCode.CORRUPT_ARTIFACT, lambda: copy_verified(kept, tmp_path / "other", name="a.txt"))
    assert error.message.startswith("a.txt is damaged")
    source.unlink()
    refused(ErrorCode.CORRUPT_ARTIFACT, lambda: verify_file(kept, name="a.txt"))


def test_a_workspace_is_gone_even_after_a_failure(store: UploadStore) -> None:
    def fail() -> None:
        with store.workspace() as folder:
            (folder / "a").write_bytes(CONTENT)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list((store.root / ".incoming").iterdir()) == []


def test_what_a_killed_process_left_is_swept_a_day_later(store: UploadStore) -> None:
    old, new = (store.root / ".incoming" / name for name in ("old", "new"))
    for folder in (old, new):
        folder.mkdir(parents=True)
        (folder / "a").write_bytes(CONTENT)
    yesterday = time.time() - 25 * 3600
    for path in (old / "a", old):
        os.utime(path, (yesterday, yesterday))
    with store.workspace():
        assert not old.exists()
        assert new.exists()


def test_a_file_beyond_the_limit_is_refused_before_it_is_read_whole(tmp_path: Path) -> None:
    class Endless:
        def read(self, size: int, /) -> bytes:
            return b"x" * size

    error = refused(
        ErrorCode.FILE_TOO_LARGE,
        lambda: write_stream(Endless(), tmp_path / "a", name="big.txt", limit=5_000_000),
    )
    assert error.details == {"file": "big.txt", "limit": 5_000_000}
    assert (tmp_path / "a").stat().st_size <= 5_000_000


def test_a_file_of_exactly_the_limit_is_taken(tmp_path: Path) -> None:
    assert write_stream(io.BytesIO(b"12345"), tmp_path / "a", name="a", limit=5).size == 5


def test_sweeping_leaves_workspaces_in_use_alone(tmp_path: Path) -> None:
    def work(_: int) -> None:
        for _ in range(150):
            with workspace(tmp_path) as folder:
                for name in ("a", "b"):
                    (folder / name).mkdir()
                    (folder / name / "file").touch()

    with ThreadPoolExecutor(4) as pool:
        workers = [pool.submit(work, number) for number in range(4)]
        while not all(worker.done() for worker in workers):
            assert remove_stale_workspaces(tmp_path, older_than_s=3600) == 0
    for worker in workers:
        worker.result()
