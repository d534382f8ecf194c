"""Uploaded files on disk."""

import hashlib
import io
import os
import time
from pathlib import Path

import pytest

from tenants.errors import ErrorCode
from tenants.storage import Measured, UploadStore, measure, receive
from tests.unit.tenants.files import refused

CONTENT = b"some text\n"
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def store(tmp_path: Path) -> UploadStore:
    return UploadStore(tmp_path / "uploads")


def test_a_file_is_placed_under_its_checksum(store: UploadStore) -> None:
    with store.workspace() as workspace:
        measured = receive(io.BytesIO(CONTENT), workspace / "a", name="a.txt", limit=100)
        assert measured == measure(workspace / "a") == Measured(DIGEST, len(CONTENT))
        store.place(workspace / "a", measured)
    assert (store.root / DIGEST[:2] / DIGEST).read_bytes() == CONTENT


def test_the_same_content_is_stored_once(store: UploadStore) -> None:
    places = []
    for _ in range(2):
        with store.workspace() as workspace:
            measured = receive(io.BytesIO(CONTENT), workspace / "a", name="a.txt", limit=100)
            places.append(store.place(workspace / "a", measured).stat().st_ino)
    assert places[0] == places[1]


def test_a_workspace_is_gone_even_after_a_failure(store: UploadStore) -> None:
    def fail() -> None:
        with store.workspace() as workspace:
            (workspace / "a").write_bytes(CONTENT)
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
        lambda: receive(Endless(), tmp_path / "a", name="big.txt", limit=5_000_000),
    )
    assert error.details == {"file": "big.txt", "limit": 5_000_000}
    assert (tmp_path / "a").stat().st_size <= 5_000_000


def test_a_file_of_exactly_the_limit_is_taken(tmp_path: Path) -> None:
    assert receive(io.BytesIO(b"12345"), tmp_path / "a", name="a", limit=5).size == 5
