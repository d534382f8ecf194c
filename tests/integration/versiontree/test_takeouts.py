"""All data of a tenant in one file."""

import csv
import errno
import io
import json
import re
import shutil
import zipfile
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone

from tenants.accounts.services.api_keys import api_key_create
from tenants.base.errors import ErrorCode
from tenants.base.hooks import TakeoutPart as Part
from tenants.datasets.storage import stored_path
from tenants.usage.services.request_log import RequestEntry
from tenants.usage.services.usage import request_record, usage_record
from tests.background import FixedLease, run_background
from tests.e2e.world import World, world_build
from tests.file_modes import open_to_others
from tests.unit.tenants.files import refused
from versiontree.artifact_store import ArtifactStore
from versiontree.jobs.models import BACKGROUND_RETENTION
from versiontree.jobs.services.background import background_jobs_expire
from versiontree.transfer.models import Takeout, TakeoutState
from versiontree.transfer.services import takeouts
from versiontree.transfer.services.takeouts import takeout_files_expire, takeout_path, takeout_request
from versiontree.tree.models import Artifact

pytestmark = pytest.mark.usefixtures("in_platform_scope")


@pytest.fixture
def world(db: None, artifact_root: Path, upload_root: Path, settings: Any) -> World:
    settings.HMI_EXPORT_ROOT = artifact_root.parent / "exports"
    return world_build()


def made(world: World) -> Takeout:
    """A takeout that a worker has run."""
    takeout = takeout_request(tenant=world.tenant, actor=world.owner)
    run_background(takeout.pk)
    return Takeout.unscoped.get(pk=takeout.pk)


def left() -> list[str]:
    """The names of the files in the folder of exports."""
    return sorted(path.name for path in Path(settings.HMI_EXPORT_ROOT).glob("*"))


def test_the_file_holds_all_that_the_tenant_has_and_nothing_of_others(world: World) -> None:
    key, plaintext = api_key_create(
        tenant=world.tenant, name='=HYPERLINK("x")', scopes=["infer"], created_by=world.owner
    )
    usage_record(tenant=world.tenant, model_name="triage", inputs=1, tokens=1, key_prefix=key.prefix)
    request_record(RequestEntry(tenant_id=world.tenant.pk, request_id="r-17", api="infer", status=200))
    takeout = made(world)
    assert takeout.takeout_state == TakeoutState.READY
    assert takeout.size_bytes == takeout_path(takeout).stat().st_size
    assert open_to_others(Path(settings.HMI_EXPORT_ROOT).parent) == []
    with zipfile.ZipFile(takeout_path(takeout)) as archive:
        assert archive.testzip() is None
        data, text = f"datasets/{world.dataset.pk}", f"corpora/{world.corpus.pk}"
        for split in world.dataset.splits.all():
            assert archive.read(f"{data}/{split.split}.jsonl") == stored_path(split.sha256).read_bytes()
        assert archive.read(f"{text}/corpus.txt") == stored_path(world.corpus.sha256).read_bytes()
        assert json.loads(archive.read(f"{data}/dataset.json"))["labels"] == world.dataset.labels
        assert json.loads(archive.read("tenant.json"))["quota"]["max_models"] == 50
        members = list(csv.reader(io.StringIO(archive.read("members.csv").decode("utf-8-sig"))))
        assert [row[0] for row in members] == ["user_username", "olga", "dev", "victor"]
        keys = archive.read("api_keys.csv").decode("utf-8-sig")
        assert "'=HYPERLINK" in keys
        assert key.prefix in archive.read("usage.csv").decode()
        assert "r-17" in archive.read("requests.csv").decode()
        assert "dataset.upload" in archive.read("audit.csv").decode()
        with zipfile.ZipFile(io.BytesIO(archive.read("models/triage/v1.zip"))) as version:
            world.hplm.refresh_from_db()
            assert json.loads(version.read("manifest.json"))["digest"] == world.hplm.digest
        whole = b"".join(archive.read(name) for name in archive.namelist())
    for others in (b"Umbra", b"sam", plaintext.encode(), key.hashed_key.encode()):
        # As a word: three letters are in a random key, or in a checksum, now and then.
        assert not re.search(rb"\b%b\b" % re.escape(others), whole)


def test_second_takeout_is_refused_while_one_is_active_and_replaces_it_later(world: World) -> None:
    first = takeout_request(tenant=world.tenant, actor=world.owner)
    refused(ErrorCode.CONFLICT, lambda: takeout_request(tenant=world.tenant, actor=world.owner))
    run_background(first.pk)
    second = made(world)
    takeout_files_expire()
    assert left() == [f"{second.pk}.zip"]
    assert list(Takeout.unscoped.values_list("pk", flat=True)) == [second.pk]
    Takeout.unscoped.update(finished_at=timezone.now() - BACKGROUND_RETENTION)
    (Path(settings.HMI_EXPORT_ROOT) / "nobody-s.zip.part").touch()
    assert background_jobs_expire()
    takeout_files_expire()
    assert (left(), Takeout.unscoped.count()) == ([], 0)


class LeaseLostAtTheEnd(FixedLease):
    """Another worker gets the job when the work is done, before that is recorded."""

    def flush(self, *_: object) -> None:
        Takeout.unscoped.filter(state="running").update(worker="another")


def test_a_takeout_stays_until_a_later_one_is_ready(world: World) -> None:
    first = made(world)
    second = takeout_request(tenant=world.tenant, actor=world.owner)
    run_background(second.pk, LeaseLostAtTheEnd)
    takeout_files_expire()
    assert takeout_path(first).is_file()
    assert set(Takeout.unscoped.values_list("pk", "state")) == {
        (first.pk, "succeeded"),
        (second.pk, "running"),
    }


def test_a_full_disk_is_said_and_nothing_is_left(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks_off() -> Iterator[bytes]:
        yield b"some"
        raise OSError(errno.ENOSPC, "No space left on device")

    usage = namedtuple("usage", "total free")
    with monkeypatch.context() as full:
        full.setattr(shutil, "disk_usage", lambda _: usage(total=10**9, free=1000))
        before = made(world)
    with monkeypatch.context() as full:
        full.setattr(takeouts, "tree_parts", lambda _: [Part("x", breaks_off())])
        meanwhile = made(world)
    for takeout in (before, meanwhile):
        assert takeout.takeout_state == TakeoutState.FAILED
        assert "disk is full" in takeout.error_message
    assert left() == []
    assert made(world).takeout_state == TakeoutState.READY


def test_takeout_names_a_damaged_artifact(world: World) -> None:
    artifact = Artifact.objects.get(kind="hplm")
    folder = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT)).path("hplm", artifact.digest)
    file = next(path for path in folder.rglob("*") if path.is_file())
    file.chmod(0o644)
    file.write_text("something else")
    takeout = made(world)
    assert takeout.takeout_state == TakeoutState.FAILED
    assert file.name in takeout.error_message
