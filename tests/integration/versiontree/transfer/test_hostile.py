"""Archives made to do harm are refused with a typed error, and change nothing."""

import io
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_django import Settings

from tenants.base.errors import ErrorCode, HmiError
from tests.integration.versiontree.transfer.conftest import zipped
from tests.integration.versiontree.transfer.forgeries import FORGERIES, WEIGHTS
from tests.integration.versiontree.transfer.site import Site, everything
from tests.unit.versiontree.forging import members_of, resealed, with_part, zip_of
from versiontree.transfer.archive.layout import MAX_JSON_VALUES, MAX_TEXT_BYTES
from versiontree.transfer.archive.reader import Archive
from versiontree.transfer.services.version_import import version_import

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.usefixtures("tried_here"),
    pytest.mark.filterwarnings("ignore:Duplicate name"),
]


class Bomb:
    """Whoever unpickles it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return os.mkdir, (str(self.path),)


def test_forged_archives_are_refused_and_leave_nothing(
    site: Site, tmp_path: Path, artifact_root: Path, settings: Settings
) -> None:
    settings.HMI_ARTIFACT_ROOT = tmp_path / "below" / "artifacts"  # whoever climbs out of it is seen
    settings.HMI_ARTIFACT_ROOT.parent.mkdir()
    artifact_root.rename(settings.HMI_ARTIFACT_ROOT)
    members, file = members_of(zipped(site.hplm)), tmp_path / "forged.zip"
    for name, (forge, words) in FORGERIES.items():
        file.write_bytes(forge(members))
        before = everything(tmp_path)
        for archive in (file, io.BytesIO(file.read_bytes())):
            error = refused(site, archive)
            assert (error.code, error.param) == (ErrorCode.INVALID_ARCHIVE, "archive"), name
            assert words in error.message, name
            assert len(error.message) < 500, name
        assert everything(tmp_path) == before, name


def test_a_pickle_in_the_place_of_weights_is_never_opened(site: Site, tmp_path: Path) -> None:
    evil = pickle.dumps(Bomb(tmp_path / "evil"))
    archive = zip_of(with_part(members_of(zipped(site.hplm)), WEIGHTS, evil))
    before = everything(tmp_path)
    assert "safetensors" in refused(site, io.BytesIO(archive)).message
    assert everything(tmp_path) == before


def test_an_archive_that_claims_to_be_enormous_is_refused_by_its_directory(
    site: Site, settings: Settings
) -> None:
    settings.HMI_IMPORT_MAX_BYTES = 50_000_000
    members = {**members_of(zipped(site.hplm)), "README.md": b"\0" * 50_000_001}
    archive = zip_of(resealed(members), compressed=True)
    assert len(archive) < 1_000_000
    assert refused(site, io.BytesIO(archive)).code == ErrorCode.FILE_TOO_LARGE


def test_a_small_archive_that_would_unpack_to_a_large_one_is_refused_by_its_directory(
    site: Site, tmp_path: Path
) -> None:
    members = members_of(zipped(site.hplm))
    (weights,) = (name for name in members if name.endswith(WEIGHTS))
    archive = zip_of(resealed({**members, weights: b"\0" * 64_000_000}), compressed=True)
    assert len(archive) < 100_000
    before = everything(tmp_path)
    error = refused(site, io.BytesIO(archive))
    assert (error.code, error.details) == (ErrorCode.INVALID_ARCHIVE, {"limit": 100})
    assert everything(tmp_path) == before


def test_text_member_above_the_limit_is_refused(site: Site) -> None:
    members = members_of(zipped(site.hplm))
    long = os.urandom(MAX_TEXT_BYTES // 2 + 1).hex().encode()
    for name in ("README.md", "hplm.json"):
        error = refused(site, io.BytesIO(zip_of(with_part(members, name, long))))
        assert (error.code, error.details) == (ErrorCode.INVALID_ARCHIVE, {"limit": MAX_TEXT_BYTES}), name
    content = b'{"files": [' + b"{}," * (MAX_JSON_VALUES // 2) + b"{}]}"
    assert len(content) < MAX_TEXT_BYTES
    error = refused(site, io.BytesIO(zip_of({**members, "manifest.json": content})))
    assert (error.code, error.details) == (ErrorCode.INVALID_ARCHIVE, {"limit": MAX_JSON_VALUES})


def test_free_disk_is_checked_before_an_archive_is_unpacked(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: whole._replace(free=1000))
    monkeypatch.setattr(Archive, "unpack", pytest.fail)
    assert refused(site, io.BytesIO(zipped(site.hplm))).code == ErrorCode.OUT_OF_DISK


def test_the_files_of_a_folder_are_plain_files(site: Site, tmp_path: Path) -> None:
    members = members_of(zipped(site.hplm))
    for trick in ("link", "linked folder", "pipe", "missing"):
        folder = tmp_path / trick
        for name, content in members.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        card, inside = folder / "README.md", folder / "artifacts"
        if trick == "linked folder":
            inside.symlink_to(inside.rename(tmp_path / "artifacts-of-it"))
        elif trick == "link":
            card.symlink_to(card.rename(tmp_path / "card"))
        else:
            card.unlink()
        if trick == "pipe":
            os.mkfifo(card)
        before = everything(tmp_path)
        assert refused(site, folder).code == ErrorCode.INVALID_ARCHIVE, trick
        assert everything(tmp_path) == before, trick
    assert refused(site, tmp_path / "nowhere").code == ErrorCode.INVALID_ARCHIVE


def refused(site: Site, archive: Path | io.BytesIO) -> HmiError:
    with pytest.raises(HmiError) as caught:
        version_import(archive=archive, tenant=site.globex.tenant, actor=site.staff)
    return caught.value
