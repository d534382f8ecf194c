"""Whatever happens to an archive on its way, it unpacks to what was exported or is refused."""

import io
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenants.base.errors import ErrorCode, HmiError
from tests.unit.versiontree.forging import Members, entry, zip_of
from tests.unit.versiontree.mutations import mutations
from versiontree.artifact_store import FileEntry, files_digest
from versiontree.transfer.archive.layout import (
    ALLOWED_FILES,
    ARTIFACTS,
    Contents,
    Node,
    config_json,
    manifest_json,
)
from versiontree.transfer.archive.reader import archive_open, unpacked
from versiontree.tree.models import RootKind
from versiontree.tree.models.version import REQUIRED_ROLES, VersionKind

MOST_BYTES = 200_000
EXPECTED = {ErrorCode.INVALID_ARCHIVE, ErrorCode.FILE_TOO_LARGE}


def sound_members() -> Members:
    """The archive of a model with its branch; what the artifacts hold makes no difference here."""
    members: Members = {"README.md": b"# A card\n"}
    nodes = []
    for kind in (VersionKind.HPLM, VersionKind.DOMAIN, VersionKind.ROOT):
        digests = {}
        for role in sorted(REQUIRED_ROLES[RootKind.ENCODER][kind]):
            parts = {name: f"{kind} {role} {name} ".encode() * 30 for name in sorted(ALLOWED_FILES[role])}
            digests[role] = files_digest({name: made_entry(content) for name, content in parts.items()})
            prefix = f"{ARTIFACTS}/{role}/{digests[role]}"
            members |= {f"{prefix}/{name}": content for name, content in parts.items()}
        task = "classification" if kind == VersionKind.HPLM else ""
        nodes.append(Node(kind, f"some-{kind}", 1, digests, task=task, config={"labels": ["a", "b"]}))
    members["config.json"] = json.dumps(config_json(tuple(nodes))).encode()
    files = {name: made_entry(content) for name, content in members.items()}
    manifest = manifest_json(Contents(tuple(nodes), True, files))
    return {"manifest.json": json.dumps(manifest).encode(), **members}


def made_entry(content: bytes) -> FileEntry:
    told: Any = entry(content)
    return FileEntry(sha256=told["sha256"], size=told["size"])


MEMBERS = sound_members()
ARCHIVE = zip_of(MEMBERS)


def unpack(archive: Any, folder: Path, *, max_bytes: int = MOST_BYTES) -> Contents:
    with archive_open(archive, max_bytes=max_bytes) as opened:
        opened.unpack(folder)
        return opened.contents


def read(archive: Any, folder: Path) -> dict[str, str] | None:
    """The digests that an archive unpacks to, each found again in the bytes; None if it is refused.

    Nothing is written but below the folder.
    """
    inside = folder / "workspace"
    inside.mkdir()
    try:
        contents = unpack(archive, inside)
    except HmiError as error:
        if error.code not in EXPECTED or not 0 < len(error.message) < 600:
            raise
        return None
    finally:
        assert [path.name for path in folder.iterdir()] == ["workspace"]
        written = [path for path in inside.rglob("*") if not path.is_dir()]
        assert all(path.is_file() and not path.is_symlink() for path in written)
        assert sum(path.stat().st_size for path in written) < MOST_BYTES + 2**20
    for kind, digest in contents.artifacts():
        found = {
            path.name: made_entry(path.read_bytes()) for path in unpacked(inside, kind, digest).iterdir()
        }
        assert files_digest(found) == digest
    return {f"{node.kind}/{role}": d for node in contents.nodes for role, d in node.digests.items()}


@pytest.fixture(scope="module")
def digests(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the archive unpacks to when nothing happened to it."""
    found = read(io.BytesIO(ARCHIVE), tmp_path_factory.mktemp("sound"))
    assert found is not None
    assert len(found) == 6
    return found


@settings(max_examples=50, deadline=None)
@given(mutate=mutations)
def test_a_changed_zip_file_is_refused_or_the_same(mutate: Any, digests: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert read(io.BytesIO(mutate(MEMBERS)), Path(folder)) in (None, digests)


@settings(max_examples=20, deadline=None)
@given(noise=st.binary(max_size=2000))
def test_noise_is_refused(noise: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert read(io.BytesIO(noise), Path(folder)) is None


def test_a_folder_unpacks_to_the_same(digests: dict[str, str], tmp_path: Path) -> None:
    for name, content in MEMBERS.items():
        (tmp_path / "folder" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "folder" / name).write_bytes(content)
    (tmp_path / "out").mkdir()
    assert read(tmp_path / "folder", tmp_path / "out") == digests


def test_the_largest_archive_is_exactly_the_limit(tmp_path: Path) -> None:
    size = sum(map(len, MEMBERS.values()))
    (tmp_path / "fits").mkdir()
    unpack(io.BytesIO(ARCHIVE), tmp_path / "fits", max_bytes=size)
    with pytest.raises(HmiError) as caught:
        unpack(io.BytesIO(ARCHIVE), tmp_path / "more", max_bytes=size - 1)
    assert caught.value.code == ErrorCode.FILE_TOO_LARGE
    assert not (tmp_path / "more").exists()
