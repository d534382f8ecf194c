"""Garbage: what nothing living needs goes, and nothing else does."""

import os
import shutil
import time
from datetime import datetime, timedelta
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import pytest
from django.conf import settings as django_settings
from django.core.management import call_command
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.tree_factory import TenantFixture, do_jobs, jobs_in_order
from versiontree.artifact_store import ArtifactDamaged, ArtifactStore, staging_folder
from versiontree.jobs.services.lifecycle import job_succeed
from versiontree.tree.models import Artifact, Hplm, Version, VersionArtifact
from versiontree.tree.models.version import VersionState
from versiontree.tree.services import garbage_collection as collect_module
from versiontree.tree.services.compaction import domain_compact
from versiontree.tree.services.domains import domain_update
from versiontree.tree.services.garbage_collection import artifacts_collect
from versiontree.tree.services.hplms import hplm_delete
from versiontree.tree.services.versions import version_transition

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_platform_scope")]

QUERIES = 18
"""Of a round that removes something, in one batch."""


def store() -> ArtifactStore:
    return ArtifactStore(Path(django_settings.HMI_ARTIFACT_ROOT))


def kept_roles(version: Version) -> set[str]:
    """The roles in which a version still has artifacts, each verified on disk."""
    links = VersionArtifact.unscoped.filter(version=version).select_related("artifact")
    for link in links:
        store().verify(link.artifact.kind, link.artifact.digest)
    return {link.role for link in links}


def collect(*, dry_run: bool = False) -> list[str]:
    return artifacts_collect(grace_s=0, dry_run=dry_run).artifacts


def test_a_deleted_hplm_gives_its_artifact_back_and_only_that(root: Version, acme: TenantFixture) -> None:
    version = tree_factory.ready_hplm(root, "spam", acme)
    hplm_delete(hplm=tree_factory.hplm_of(version), actor=None)
    digest = version.digest
    assert collect(dry_run=True) == [f"hplm/{digest[:12]}"]
    assert store().path("hplm", digest).is_dir()
    assert collect() == [f"hplm/{digest[:12]}"]
    assert not store().path("hplm", digest).exists()
    assert not Artifact.objects.filter(digest=digest).exists()
    assert kept_roles(root) == {"root", "lower", "plot"}
    version.refresh_from_db()
    assert (version.state, version.digest) == ("retired", digest)


@pytest.fixture
def years_later(monkeypatch: pytest.MonkeyPatch) -> datetime:
    """For the collector: everything was made long ago."""
    now = timezone.now() + timedelta(days=1000)
    monkeypatch.setattr(collect_module, "time", SimpleNamespace(time=now.timestamp))
    monkeypatch.setattr(collect_module, "timezone", SimpleNamespace(now=lambda: now))
    return now


def test_files_of_a_deleted_model_and_of_its_parents_stay_for_a_while_however_old_they_are(
    domain: Version, acme: TenantFixture, years_later: datetime
) -> None:
    version = tree_factory.ready_hplm(domain, "spam", acme)
    hplm_delete(hplm=tree_factory.hplm_of(version), actor=None)
    version_transition(version_id=domain.pk, from_state=VersionState.READY, to=VersionState.RETIRED)
    for seconds, collected in ((3500, 0), (3700, 3)):
        deleted_at = years_later - timedelta(seconds=seconds)
        Hplm.unscoped.filter(versions=version).update(deleted_at=deleted_at)
        assert len(artifacts_collect(grace_s=3600).artifacts) == collected


@pytest.mark.parametrize("many", [1, 4])
def test_collecting_takes_one_lock_and_as_many_queries_for_any_number(
    root: Version, acme: TenantFixture, django_assert_num_queries: DjangoAssertNumQueries, many: int
) -> None:
    gone = []
    for number in range(many):
        version = tree_factory.ready_hplm(root, f"spam{number}", acme)
        hplm_delete(hplm=tree_factory.hplm_of(version), actor=None)
        gone += [f"hplm/{version.digest[:12]}", f"plot/{tree_factory.stored('plot').digest[:12]}"]
    with django_assert_num_queries(QUERIES) as made:
        found = artifacts_collect(grace_s=0)
    assert sorted(found.artifacts) == sorted(gone)
    assert sum("pg_advisory" in query["sql"] for query in made.captured_queries) == 1


def test_many_artifacts_are_removed_in_batches(
    root: Version, acme: TenantFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect_module, "BATCH_SIZE", 2)
    lone = [tree_factory.stored("plot") for _ in range(5)]
    assert sorted(collect()) == sorted(f"plot/{one.digest[:12]}" for one in lone)
    assert not any(store().path("plot", one.digest).exists() for one in lone)


def test_failed_removal_leaves_all_artifacts_in_place(
    root: Version, acme: TenantFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = [tree_factory.ready_hplm(root, name, acme) for name in ("spam", "mood")]
    for version in versions:
        hplm_delete(hplm=tree_factory.hplm_of(version), actor=None)
    names = iter([uuid4()])  # for one folder only
    with monkeypatch.context() as broken:
        broken.setattr(collect_module, "uuid4", lambda: next(names))
        with pytest.raises(StopIteration):
            collect()
    for version in versions:
        assert Artifact.objects.filter(digest=version.digest).exists()
        store().verify("hplm", version.digest)
    assert len(collect()) == 2


def test_artifact_attached_or_made_again_before_the_lock_is_kept(
    root: Version, building: Version, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuning = jobs_in_order(building)[0]
    worker = tree_factory.claim(tuning)
    attached, again = tree_factory.stored("hplm"), tree_factory.stored("plot")
    old = time.time() - 7200
    for one in (attached, again):
        os.utime(store().path(one.kind, one.digest), (old, old))

    def meanwhile() -> None:
        job_succeed(job_id=tuning.pk, worker=worker, metrics={}, artifacts=[("hplm", attached)])
        os.utime(store().path("plot", again.digest))

    def lock(_: str, *, shared: bool = False) -> None:
        if not shared:
            meanwhile()

    monkeypatch.setattr(collect_module, "advisory_xact_lock", lock)
    assert artifacts_collect(grace_s=3600).artifacts == []
    assert kept_roles(building) == {"hplm"}
    store().verify("plot", again.digest)


def test_a_retired_domain_stays_as_long_as_something_stands_on_it(
    domain: Version, acme: TenantFixture
) -> None:
    version = tree_factory.ready_hplm(domain, "spam", acme)
    version_transition(version_id=domain.pk, from_state=VersionState.READY, to=VersionState.RETIRED)
    assert collect() == []
    hplm_delete(hplm=tree_factory.hplm_of(version), actor=None)
    assert len(collect()) == 3
    assert kept_roles(domain) == set()


def test_tables_are_kept_until_compacted_and_then_for_their_readers(
    domain: Version,
) -> None:
    text = tree_factory.corpus(None, "more text")
    tip = do_jobs(domain_update(domain=tree_factory.domain_of(domain), corpus=text, actor=None))
    compacted = domain_compact(domain=tree_factory.domain_of(tip), actor=None)
    for version in (domain, tip):
        version_transition(version_id=version.pk, from_state=VersionState.READY, to=VersionState.RETIRED)
    assert collect() == []
    do_jobs(compacted)
    assert sorted(name.split("/")[0] for name in collect()) == ["plot", "plot"]
    assert kept_roles(compacted) == {"lower", "plot"}
    assert kept_roles(tip) == {"lower"}


def test_unreferenced_files_are_removed_after_a_grace_time_that_starts_anew_when_they_are_made_again(
    root: Version, tmp_path: Path
) -> None:
    lone, old = tree_factory.stored("plot"), time.time() - 7200
    folder, again = store().path("plot", lone.digest), tmp_path / "again"
    assert artifacts_collect(grace_s=3600).artifacts == []
    os.utime(folder, (old, old))
    again.mkdir()
    for file in folder.iterdir():
        shutil.copyfile(file, again / file.name)
    assert store().ingest("plot", again).digest == lone.digest
    assert artifacts_collect(grace_s=3600).artifacts == []
    os.utime(folder, (old, old))
    assert artifacts_collect(grace_s=3600).artifacts == [f"plot/{lone.digest[:12]}"]
    assert not folder.exists()


def test_a_job_cannot_attach_what_was_collected_meanwhile(building: Version) -> None:
    tuning = jobs_in_order(building)[0]
    worker = tree_factory.claim(tuning)
    made = tree_factory.stored("hplm")
    assert collect() == [f"hplm/{made.digest[:12]}"]
    with pytest.raises(ArtifactDamaged):
        job_succeed(job_id=tuning.pk, worker=worker, metrics={}, artifacts=[("hplm", made)])


def test_staging_folders_go_with_their_jobs(building: Version, domain: Version) -> None:
    running, ended, gone = jobs_in_order(building)[0].pk, jobs_in_order(domain)[0].pk, uuid4()
    for job_id in (running, ended, gone):
        staging_folder(store().root, job_id).mkdir(parents=True)
    (store().root / ".staging" / "not a job").mkdir()
    assert set(artifacts_collect(grace_s=0).staging) == {str(ended), str(gone)}
    assert staging_folder(store().root, running).is_dir()
    assert not staging_folder(store().root, ended).exists()


def test_dry_run_of_the_command_lists_what_it_would_remove(root: Version, acme: TenantFixture) -> None:
    version = tree_factory.ready_hplm(root, "spam", acme)
    hplm_delete(hplm=tree_factory.hplm_of(version), actor=None)
    out = StringIO()
    call_command("collect_artifacts", "--dry-run", "--grace-hours", "0", stdout=out)
    assert f"Would remove hplm/{version.digest[:12]}" in out.getvalue()
    call_command("collect_artifacts", "--grace-hours", "0", stdout=out)
    assert "Removed 1 artifacts" in out.getvalue()
