"""The manifest: what workers are told to serve, read as its format is documented."""

import fcntl
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from tenants.accounts.services.tenants import tenant_set_weight
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.tree_factory import TenantFixture
from versiontree.tree.models import Hplm, Version
from versiontree.tree.services.hplms import hplm_delete, hplm_update
from versiontree.tree.serving_manifest import manifest_content, manifest_publish

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("in_platform_scope")]

PARENTS = {"plain": "bert", "spam": "biomedicine", "mail": "acme/letters"}


@pytest.fixture
def manifest(artifact_root: Path) -> Path:
    return artifact_root / "manifest.json"


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_bytes())
    return found


def test_a_model_is_in_the_manifest_as_soon_as_it_is_ready(
    root: Version, domain: Version, model: Version, manifest: Path, artifact_root: Path
) -> None:
    said = read(manifest)
    parts = {"format", "revision", "roots", "lowers", "hplms", "weights", "tables", "pinned"}
    assert (said["format"], set(said)) == (2, parts | {"decoders", "generative", "bases"})
    own, nearest = (version.artifact_links.get(role="lower").artifact for version in (root, domain))
    [(digest, about)] = said["roots"].items()
    assert (digest, about["name"], about["lower"]) == (root.digest, "bert", own.digest)
    assert set(about["files"]) == set(root.artifact_links.get(role="root").artifact.files)
    assert set(said["lowers"]) == {own.digest, nearest.digest}
    assert set(said["lowers"][nearest.digest]["files"]) == set(nearest.files)
    entry = said["hplms"]["acme/spam:1"]
    files = entry.pop("files")
    assert entry == {
        "tenant": "acme",
        "hplm": "spam",
        "version": 1,
        "digest": model.digest,
        "task": "classification",
        "pairs": False,
        "root": root.digest,
        "lower": nearest.digest,
        "plots": [domain.digest, root.artifact_links.get(role="plot").artifact.digest],
    }
    folder = artifact_root / "hplm" / model.digest[:2] / model.digest
    assert set(files) == {path.name for path in folder.iterdir()}
    for digest in entry["plots"]:
        assert (artifact_root / "plot" / digest[:2] / digest).is_dir()


def test_a_model_of_pairs_is_marked(domain: Version, acme: TenantFixture, manifest: Path) -> None:
    type(acme.dataset).unscoped.filter(pk=acme.dataset.pk).update(pairs=True)
    acme.dataset.refresh_from_db()
    tree_factory.ready_hplm(domain, "spam", acme)
    manifest_publish()
    assert read(manifest)["hplms"]["acme/spam:1"]["pairs"] is True


def test_the_nearest_table_of_a_model_is_named_after_what_it_belongs_to(
    root: Version, domain: Version, acme: TenantFixture, manifest: Path
) -> None:
    own = tree_factory.ready_domain(root, "letters", home=acme)
    for parent, name in ((root, "plain"), (domain, "spam"), (own, "mail")):
        tree_factory.ready_hplm(parent, name, acme)
    said = read(manifest)
    named = {name: said["tables"][said["hplms"][f"acme/{name}:1"]["plots"][0]] for name in PARENTS}
    assert named == PARENTS
    assert len(said["tables"]) == 3


def test_every_ready_version_is_in_the_manifest_until_its_model_is_deleted(
    domain: Version, model: Version, acme: TenantFixture, manifest: Path
) -> None:
    tree_factory.new_hplm(domain, "unfinished", acme)
    tree_factory.do_jobs(hplm_update(hplm=tree_factory.hplm_of(model), dataset=acme.dataset, actor=None))
    manifest_publish()
    before = read(manifest)
    assert set(before["hplms"]) == {"acme/spam:1", "acme/spam:2"}
    hplm_delete(hplm=tree_factory.hplm_of(model), actor=None)
    after = read(manifest)
    assert (after["hplms"], after["revision"]) == ({}, before["revision"] + 1)


def test_a_weight_is_published_when_it_is_set(model: Version, acme: TenantFixture, manifest: Path) -> None:
    with transaction.atomic():
        tenant_set_weight(tenant=acme.tenant, weight=1.5, actor=None)
        transaction.set_rollback(True)
    acme.tenant.refresh_from_db()
    before = read(manifest)
    assert before["weights"] == {}
    assert tenant_set_weight(tenant=acme.tenant, weight=2.5, actor=None)
    after = read(manifest)
    assert (after["weights"], after["revision"]) == ({"acme": 2.5}, before["revision"] + 1)
    assert not tenant_set_weight(tenant=acme.tenant, weight=2.5, actor=None)
    assert read(manifest)["revision"] == before["revision"] + 1


def test_damaged_manifest_is_rewritten_and_an_unchanged_one_is_not(model: Version, manifest: Path) -> None:
    before = manifest.stat()
    manifest_publish()
    assert (manifest.stat().st_ino, manifest.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    for wreck in ("{", '{"format": 1}'):
        manifest.write_text(wreck)
        manifest_publish()
        assert set(read(manifest)["hplms"]) == {"acme/spam:1"}, wreck


def test_the_number_of_queries_does_not_grow_with_the_models(
    model: Version, domain: Version, acme: TenantFixture, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    tree_factory.ready_hplm(domain, "ham", acme)
    with django_assert_num_queries(5):
        assert len(manifest_content()["hplms"]) == 2


def test_a_reader_never_sees_half_a_manifest(
    root: Version, acme: TenantFixture, manifest: Path, artifact_root: Path
) -> None:
    manifest_publish()
    stop = threading.Event()
    seen: list[int] = []

    def watch() -> None:
        while not stop.is_set():
            seen.append(read(manifest)["revision"])

    def publish(revisions: Iterator[int]) -> None:
        try:
            for _ in revisions:
                manifest_publish()
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        watching = pool.submit(watch)
        try:
            publishing = [pool.submit(publish, iter(range(10))) for _ in range(3)]
            for n in range(3):
                tree_factory.ready_hplm(root, f"model-{n}", acme)
            for work in publishing:
                work.result()
        finally:
            stop.set()
        watching.result()
    assert seen == sorted(seen)
    assert len(read(manifest)["hplms"]) == 3
    assert [path.name for path in artifact_root.glob(".manifest.json.*")] == []


def test_a_publisher_reads_the_database_only_when_its_turn_has_come(
    model: Version, manifest: Path, artifact_root: Path
) -> None:
    def publish() -> None:
        try:
            manifest_publish()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with (artifact_root / ".manifest.lock").open("a") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            publishing = pool.submit(publish)
            with pytest.raises(TimeoutError):
                publishing.result(timeout=0.5)
            Hplm.unscoped.filter(versions=model).update(deleted_at=timezone.now())
        publishing.result(timeout=10)
    assert read(manifest)["hplms"] == {}


def test_a_manifest_that_cannot_be_written_does_not_undo_a_job(
    root: Version, acme: TenantFixture, manifest: Path, caplog: pytest.LogCaptureFixture
) -> None:
    manifest.unlink(missing_ok=True)
    manifest.mkdir()
    model = tree_factory.ready_hplm(root, "spam", acme)
    assert model.state == "ready"
    assert "could not be published" in caplog.text
    manifest.rmdir()
    manifest_publish()
    assert set(read(manifest)["hplms"]) == {"acme/spam:1"}
