"""The artifact store, on a real disk."""

import hashlib
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from versiontree.artifact_store import ArtifactDamaged, ArtifactStore, StoredArtifact, files_digest


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "artifacts")


def make(store: ArtifactStore, content: bytes = b"tensors") -> StoredArtifact:
    with store.workspace("hplm") as folder:
        (folder / "hplm.json").write_text("{}")
        (folder / "deep").mkdir()
        (folder / "deep" / "hplm.safetensors").write_bytes(content)
        return store.ingest("hplm", folder)


def test_an_artifact_lies_where_its_content_says(store: ArtifactStore) -> None:
    made = make(store)
    expected = {
        "deep/hplm.safetensors": {"sha256": hashlib.sha256(b"tensors").hexdigest(), "size": 7},
        "hplm.json": {"sha256": hashlib.sha256(b"{}").hexdigest(), "size": 2},
    }
    canonical = json.dumps(expected, sort_keys=True, separators=(",", ":"))
    assert made.files == expected
    assert (made.kind, made.size) == ("hplm", 9)
    assert made.digest == hashlib.sha256(canonical.encode()).hexdigest() == files_digest(expected)  # type: ignore[arg-type]
    folder = store.path("hplm", made.digest)
    assert folder == store.root / "hplm" / made.digest[:2] / made.digest
    assert (folder / "deep" / "hplm.safetensors").read_bytes() == b"tensors"
    store.verify("hplm", made.digest)


def test_the_same_content_is_stored_once(store: ArtifactStore) -> None:
    assert make(store) == make(store)
    assert len(list((store.root / "hplm").glob("*/*"))) == 1


def test_two_processes_may_store_the_same_at_once(store: ArtifactStore) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: make(store), range(16)))
    assert len({artifact.digest for artifact in made}) == 1
    store.verify("hplm", made[0].digest)
    assert list((store.root / ".incoming").iterdir()) == []


def test_a_workspace_is_gone_when_the_work_fails(store: ArtifactStore) -> None:
    def work() -> None:
        with store.workspace("plot") as folder:
            (folder / "half").write_text("…")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        work()
    assert list((store.root / ".incoming").iterdir()) == []
    assert not (store.root / "plot").exists()


def test_a_folder_from_elsewhere_is_copied(store: ArtifactStore, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "root.json").write_text("{}")
    made = store.ingest("root", elsewhere)
    assert (elsewhere / "root.json").exists()
    store.verify("root", made.digest)


def test_stored_files_are_read_only(store: ArtifactStore) -> None:
    folder = store.path("hplm", make(store).digest)
    assert {path.stat().st_mode & 0o222 for path in folder.rglob("*") if path.is_file()} == {0}


@pytest.mark.parametrize("damage", ["changed", "longer", "missing", "extra", "renamed", "gone"])
def test_damage_is_noticed(damage: str, store: ArtifactStore) -> None:
    made = make(store)
    folder = store.path("hplm", made.digest)
    file = folder / "deep" / "hplm.safetensors"
    file.chmod(0o644)
    match damage:
        case "changed":
            file.write_bytes(b"Tensors")
        case "longer":
            file.write_bytes(b"tensors!")
        case "missing":
            file.unlink()
        case "extra":
            (folder / "more").write_text("")
        case "renamed":
            file.rename(folder / "deep" / "other")
        case "gone":
            folder.rename(store.root / "elsewhere")
    with pytest.raises(ArtifactDamaged):
        store.verify("hplm", made.digest)


def test_storing_again_repairs_a_damaged_copy(store: ArtifactStore) -> None:
    made = make(store)
    (store.path("hplm", made.digest) / "hplm.json").unlink()
    assert make(store) == made
    store.verify("hplm", made.digest)


def test_an_empty_folder_and_a_link_are_no_artifacts(store: ArtifactStore, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    with pytest.raises(ArtifactDamaged), store.workspace("hplm") as folder:
        store.ingest("hplm", folder)
    with store.workspace("hplm") as folder:
        (folder / "link").symlink_to(tmp_path / "secret")
        with pytest.raises(ArtifactDamaged):
            store.ingest("hplm", folder)
    assert not (store.root / "hplm").exists()


def test_an_unknown_kind_is_our_own_mistake(store: ArtifactStore) -> None:
    with pytest.raises(ValueError, match="kind"):
        store.path("../hplm", "0" * 64)


def test_only_what_nobody_touched_for_long_is_swept(store: ArtifactStore) -> None:
    old, busy = store.root / ".incoming" / "old", store.root / ".incoming" / "busy"
    for folder in (old, busy):
        folder.mkdir(parents=True)
        (folder / "file").write_text("")
        os.utime(folder, (0, 0))
    os.utime(old / "file", (0, 0))
    os.utime(busy / "file", (time.time(), time.time()))
    assert store.sweep(older_than_s=60) == 1
    assert (old.exists(), busy.exists()) == (False, True)


def test_a_store_that_does_not_exist_yet_is_swept_too(store: ArtifactStore) -> None:
    assert store.sweep(older_than_s=0) == 0
