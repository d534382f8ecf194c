"""An export is there whole or not at all, and only of what is ready and sound."""

import io
from pathlib import Path

import pytest

from inference.batches.jsonl import RESULTS, OutputFiles
from inference.batches.services.batches import batch_create
from tenants.audit.models import AuditEvent
from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.services.files import file_create
from tests.file_modes import open_to_others
from tests.integration.tenants.tus import begun, send, sent
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.transfer.site import Site, store
from versiontree.artifact_store import ArtifactDamaged
from versiontree.transfer.services.version_export import (
    adapter_download,
    version_download,
    version_export,
)
from versiontree.tree.serving_manifest import manifest_publish

pytestmark = pytest.mark.django_db


def test_only_a_ready_version_is_exported(site: Site, tmp_path: Path) -> None:
    building = tree_factory.new_hplm(site.root, "fresh", site.acme)
    with pytest.raises(HmiError) as caught:
        version_export(version=building, out=tmp_path / "out", actor=None)
    assert caught.value.code == ErrorCode.MODEL_NOT_READY
    assert not (tmp_path / "out").exists()
    assert not AuditEvent.unscoped.filter(verb="version.export").exists()


@pytest.mark.parametrize("name", ["out", "out.zip"])
def test_export_to_an_existing_path_is_a_conflict(name: str, site: Site, tmp_path: Path) -> None:
    (tmp_path / name).symlink_to("nowhere")
    with pytest.raises(HmiError) as caught:
        version_export(version=site.hplm, out=tmp_path / name, actor=None)
    assert caught.value.code == ErrorCode.CONFLICT
    assert (tmp_path / name).is_symlink()


@pytest.mark.parametrize("name", ["out", "out.zip"])
def test_failed_export_leaves_no_file(
    name: str, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    weights = store().path("hplm", site.hplm.digest) / "hplm.safetensors"
    weights.chmod(0o644)
    weights.write_bytes(b"damaged")
    rename = Path.rename

    def watched(path: Path, target: Path) -> Path:
        seen.append(Path(target).exists())
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", watched)
    with pytest.raises(ArtifactDamaged):
        version_export(version=site.hplm, out=tmp_path / "to" / name, actor=None)
    assert list((tmp_path / "to").iterdir()) == []
    version_export(version=site.root, out=tmp_path / "to" / name, actor=None)
    assert seen == [False]
    assert [path.name for path in (tmp_path / "to").iterdir()] == [name]


def test_files_of_a_tenant_are_private_to_the_system_user(
    site: Site, tried_here: None, upload_root: Path, tmp_path: Path
) -> None:
    client, tenant, owner = site.client(site.acme.owner), site.acme.tenant, site.acme.owner
    send(client, begun(client, 9), b"half")
    sent(client, b"complete")
    rows = io.BytesIO(b"a text")
    file = file_create(purpose="batch", filename="lines.txt", stream=rows, tenant=tenant, actor=owner)
    batch = batch_create(file=file, model=f"{site.hplm.name}:1", tenant=tenant, actor=owner)
    with OutputFiles(batch.folder, {RESULTS: 0}):
        pass
    for out in ("export", "export.zip"):
        version_export(version=site.hplm, out=tmp_path / out, actor=None)
    b"".join(adapter_download(version=site.hplm, form="adapterhub", actor=None).chunks)
    manifest_publish()
    assert open_to_others(tmp_path) == []


def test_download_of_a_damaged_artifact_breaks_off(site: Site) -> None:
    weights = store().path("hplm", site.hplm.digest) / "hplm.safetensors"
    weights.chmod(0o644)
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    received: list[bytes] = []
    with pytest.raises(ArtifactDamaged):
        received.extend(version_download(version=site.hplm, actor=None).chunks)
    assert b"PK\x01\x02" not in b"".join(received)
    weights.unlink()
    with pytest.raises(ArtifactDamaged):
        version_download(version=site.hplm, actor=None)
