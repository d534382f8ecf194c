"""An import keeps nobody waiting: one at a time of a tenant, few on a machine, and no row locked, nor a
connection to the database held, while it works on files."""

import io
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection, transaction
from django.test import Client
from django.urls import reverse
from redis import Redis

from tenants.base.errors import HmiError
from tests.integration.versiontree.callers import V1, error, with_key
from tests.integration.versiontree.test_races import at_once
from tests.integration.versiontree.transfer.conftest import zipped
from tests.integration.versiontree.transfer.site import Models, Site, make_site, store
from versiontree.artifact_store import ArtifactStore, StoredArtifact
from versiontree.transfer.archive.import_lock import LockPurpose, import_lock
from versiontree.transfer.archive.reader import Archive, archive_open
from versiontree.transfer.services import import_plan as import_plans
from versiontree.transfer.services.import_plan import import_apply, import_plan
from versiontree.transfer.services.version_import import version_import
from versiontree.tree.models import Version
from versiontree.tree.services.version_completion import artifacts_attach, version_finish
from versiontree.tree.services.versions import version_create

pytestmark = pytest.mark.usefixtures("tried_here")


@pytest.fixture
def committed(
    transactional_db: None, redis_client: Redis, models: Models, artifact_root: Path, tmp_path: Path
) -> Site:
    """A site that other connections see."""
    return make_site(models, tmp_path)


@pytest.mark.django_db
def test_a_second_import_of_a_tenant_is_refused_until_the_first_is_done(site: Site, client: Client) -> None:
    archive, api = zipped(site.hplm), with_key(site.globex, "manage")
    at = reverse("frontend:version_import", args=["globex"])
    client.force_login(site.globex.owner)

    def file() -> SimpleUploadedFile:
        return SimpleUploadedFile("any.zip", archive)

    with import_lock(LockPurpose.IMPORT, site.globex.tenant):
        answer = api.post(f"{V1}/import", {"archive": file()}, format="multipart")
        page = client.post(at, {"archive": file()})
    assert error(answer)[:2] == (429, "queue_full")
    assert int(answer["Retry-After"]) > 0
    assert "Your import is still running" in page.content.decode()
    assert not Version.unscoped.filter(tenant=site.globex.tenant).exists()
    assert client.post(at, {"archive": file()}).status_code == 302


def test_killed_process_releases_its_import_lock(artifact_root: Path) -> None:
    read, write = os.pipe()
    if not (child := os.fork()):
        try:
            with import_lock(LockPurpose.IMPORT, None):
                os.write(write, b"x")
                signal.pause()
        finally:
            os._exit(1)
    os.read(read, 1)
    with pytest.raises(HmiError), import_lock(LockPurpose.IMPORT, None):
        pytest.fail("a second turn")
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with import_lock(LockPurpose.IMPORT, None):
        os.close(read)
    os.close(write)


@pytest.mark.django_db(transaction=True)
def test_import_unpacks_and_stores_files_outside_transactions(
    committed: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, bool]] = []
    ingest, unpack = ArtifactStore.ingest, Archive.unpack

    def watched_ingest(self: ArtifactStore, kind: str, folder: Path) -> StoredArtifact:
        seen.append(("ingest", connection.in_atomic_block))
        return ingest(self, kind, folder)

    def watched_unpack(self: Archive, folder: Path) -> None:
        seen.append(("unpack", connection.in_atomic_block))
        unpack(self, folder)

    archive = zipped(committed.hplm)
    monkeypatch.setattr(ArtifactStore, "ingest", watched_ingest)
    monkeypatch.setattr(Archive, "unpack", watched_unpack)
    version_import(archive=io.BytesIO(archive), tenant=committed.globex.tenant, actor=None)
    assert seen == [("unpack", False), ("ingest", False)]


@pytest.mark.django_db(transaction=True)
def test_concurrent_imports_onto_one_root_get_different_numbers(
    committed: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = further_root(committed)
    stored = {pair: store_again(*pair) for pair in roles_of(newer)}
    with archive_open(io.BytesIO(zipped(newer, branch=True)), max_bytes=10**9) as opened:
        contents = opened.contents
    Version.unscoped.filter(pk=newer.pk).update(state="retired")
    plans = [import_plan(contents, tenant=None, parent=None) for _ in range(2)]

    def slowly(*, version: Version, metrics: Mapping[str, Any]) -> None:
        version_finish(version=version, metrics=metrics)
        time.sleep(0.5)  # so that the other one is at it, too

    def plant(number: int) -> Callable[[], Version]:
        def act() -> Version:
            with transaction.atomic():
                return import_apply(plans[number], stored=stored, tenant=None, actor=None, name=None)

        return act

    monkeypatch.setattr(import_plans, "version_finish", slowly)
    made = at_once(plant(0), plant(1))
    assert sorted(version.number for version in made if isinstance(version, Version)) == [3, 4]


def further_root(site: Site) -> Version:
    """A second version of the root, of other lower layers."""
    made, root = {**site.models.root, "lower": site.models.domain["lower"]}, site.root.root
    artifacts = [(role, store().ingest(role, folder)) for role, folder in made.items()]
    with transaction.atomic():
        version = version_create(
            owner=root, root=root, parent=site.root, tenant=None, config={}, plans=[], actor=None
        )
        artifacts_attach(version=version, artifacts=artifacts)
        version_finish(version=version, metrics={})
    return Version.unscoped.get(pk=version.pk)


def roles_of(version: Version) -> list[tuple[str, str]]:
    return [(link.role, link.artifact.digest) for link in version.artifact_links.select_related("artifact")]


def store_again(kind: str, digest: str) -> StoredArtifact:
    return store().ingest(kind, store().path(kind, digest))
