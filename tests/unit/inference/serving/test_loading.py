"""Files are compared with what was published, and large ones read no more often than need be."""

import os
from pathlib import Path

import pytest

from inference.errors import HplmError
from inference.serving.loading import RETRY_AFTER_S, Checksums, Refusals, verify_artifact
from versiontree.artifact_store import ArtifactStore


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    """A table, as the store keeps it."""
    made = tmp_path / "made"
    (made / "part").mkdir(parents=True)
    (made / "größe.json").write_text("{}")
    (made / "part" / "rows.bin").write_bytes(b"rows")
    store = ArtifactStore(tmp_path / "store")
    return store.path("plot", store.ingest("plot", made).digest)


def change(path: Path, content: bytes) -> None:
    path.chmod(0o644)
    path.write_bytes(content)


def test_what_the_store_has_taken_in_is_found_undamaged(artifact: Path) -> None:
    verify_artifact(artifact)


def test_a_file_that_is_altered_added_or_gone_is_found(artifact: Path) -> None:
    path = artifact / "part" / "rows.bin"
    change(path, b"rowz")
    with pytest.raises(HplmError, match=r"plot .* is damaged"):
        verify_artifact(artifact)
    path.write_bytes(b"rows")
    verify_artifact(artifact)
    (artifact / "more").write_bytes(b"")
    with pytest.raises(HplmError, match="is damaged"):
        verify_artifact(artifact)
    (artifact / "more").unlink()
    path.unlink()
    with pytest.raises(HplmError, match="is damaged"):
        verify_artifact(artifact)


def test_a_file_is_read_again_when_it_has_changed_and_not_before(tmp_path: Path) -> None:
    path, checksums = tmp_path / "rows", Checksums()
    path.write_bytes(b"first")
    before = path.stat()
    first = checksums.of(path)
    path.write_bytes(b"other")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as if nobody had touched it
    assert checksums.of(path) == first
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert checksums.of(path) != first


def test_what_is_served_no_more_is_forgotten(tmp_path: Path) -> None:
    path, checksums = tmp_path / "rows", Checksums()
    path.write_bytes(b"first")
    before = path.stat()
    first = checksums.of(path)
    path.write_bytes(b"other")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    checksums.keep({tmp_path})
    assert checksums.of(path) == first
    checksums.keep(set())
    assert checksums.of(path) != first


def test_a_refusal_is_forgotten_in_time_and_when_files_change(tmp_path: Path) -> None:
    path, now, loads = tmp_path / "weights", 0.0, 0
    refusals = Refusals(lambda: now)

    def attempt() -> str:
        def load() -> None:
            nonlocal loads
            loads += 1
            raise HplmError("corrupt_artifact", "it is damaged")

        with pytest.raises(HplmError) as caught:
            refusals.attempt("digest", [path], load)
        return str(caught.value)

    assert [attempt() for _ in range(3)] == ["corrupt_artifact: it is damaged"] * 3
    assert loads == 1
    path.write_bytes(b"there")
    attempt(), attempt()
    assert loads == 2
    now = RETRY_AFTER_S
    attempt()
    assert loads == 3


def test_what_failed_can_be_had_once_its_files_are_right(tmp_path: Path) -> None:
    path, refusals = tmp_path / "weights", Refusals()
    with pytest.raises(OSError, match="weights"):  # not damaged: whatever it is, it is not remembered
        refusals.attempt("digest", [path], path.read_bytes)
    path.write_bytes(b"right")
    assert refusals.attempt("digest", [path], path.read_bytes) == b"right"
