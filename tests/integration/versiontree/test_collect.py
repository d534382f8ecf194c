"""Garbage: what nothing living needs goes, and nothing else does."""

import os
import time
from collections.abc import Callable
from io import StringIO
from itertools import count
from pathlib import Path
from uuid import uuid4

import pytest
from django.conf import settings as django_settings
from django.core.management import call_command
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenants.errors import HmiError
from tests.integration.versiontree import grove
from tests.integration.versiontree.grove import Household, do_job, do_jobs, jobs_in_order
from versiontree.artifacts import ArtifactDamaged, ArtifactStore
from versiontree.models import Artifact, Job, Version, VersionArtifact
from versiontree.models.version import VersionKind, VersionState
from versiontree.selectors import build_inputs
from versiontree.services.collect import artifacts_collect
from versiontree.services.compact import domain_compact
from versiontree.services.domains import domain_create, domain_update
from versiontree.services.grow import domain_grow
from versiontree.services.hplms import hplm_create, hplm_delete, hplm_update
from versiontree.services.jobs import job_cancel, job_retry, job_succeed
from versiontree.services.transitions import version_move
from versiontree.staging import staging_folder

pytestmark = pytest.mark.django_db
_serial = count(1)


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


def test_nothing_of_a_living_tree_is_collected(domain: Version, model: Version) -> None:
    do_jobs(model)
    grove.new_hplm(domain, "building", grove.household("third"))
    assert collect() == []


def test_a_deleted_hplm_gives_its_artifact_back_and_only_that(root: Version, acme: Household) -> None:
    version = grove.ready_hplm(root, "spam", acme)
    hplm_delete(hplm=grove.hplm_of(version), actor=None)
    digest = version.digest
    assert collect(dry_run=True) == [f"hplm/{digest[:12]}"]
    assert store().path("hplm", digest).is_dir()
    assert collect() == [f"hplm/{digest[:12]}"]
    assert not store().path("hplm", digest).exists()
    assert not Artifact.objects.filter(digest=digest).exists()
    assert kept_roles(root) == {"root", "lower", "plot"}
    version.refresh_from_db()
    assert (version.state, version.digest) == ("retired", digest)


def test_what_is_young_stays(root: Version, acme: Household) -> None:
    version = grove.ready_hplm(root, "spam", acme)
    hplm_delete(hplm=grove.hplm_of(version), actor=None)
    assert artifacts_collect(grace_s=60).artifacts == []
    Artifact.objects.filter(digest=version.digest)  # its row is young as well
    assert store().path("hplm", version.digest).is_dir()


def test_a_retired_domain_stays_as_long_as_something_stands_on_it(domain: Version, acme: Household) -> None:
    version = grove.ready_hplm(domain, "spam", acme)
    version_move(version_id=domain.pk, from_state=VersionState.READY, to=VersionState.RETIRED)
    assert collect() == []
    hplm_delete(hplm=grove.hplm_of(version), actor=None)
    assert len(collect()) == 3
    assert kept_roles(domain) == set()


def test_a_failed_version_keeps_what_its_retry_needs(root: Version) -> None:
    text = grove.corpus(None, "text")
    version = domain_create(tenant=None, parent=root, name="half", corpus=text, actor=None)
    do_job(jobs_in_order(version)[0])
    job_cancel(job=jobs_in_order(version)[1], actor=None)
    assert collect() == []
    job_retry(job=jobs_in_order(version)[1], actor=None)
    do_jobs(version)
    assert kept_roles(version) == {"lower", "plot"}


def test_tables_are_kept_until_they_are_compacted_and_then_only_for_those_who_read_them(
    domain: Version,
) -> None:
    text = grove.corpus(None, "more text")
    tip = do_jobs(domain_update(domain=grove.domain_of(domain), corpus=text, actor=None))
    compacted = domain_compact(domain=grove.domain_of(tip), actor=None)
    for version in (domain, tip):
        version_move(version_id=version.pk, from_state=VersionState.READY, to=VersionState.RETIRED)
    assert collect() == []
    do_jobs(compacted)
    assert sorted(name.split("/")[0] for name in collect()) == ["plot", "plot"]
    assert kept_roles(compacted) == {"lower", "plot"}
    assert kept_roles(tip) == {"lower"}


def test_files_that_nobody_speaks_of_are_removed_when_they_are_old(root: Version) -> None:
    lone = grove.stored("plot")
    folder = store().path("plot", lone.digest)
    assert artifacts_collect(grace_s=3600).artifacts == []
    old = time.time() - 7200
    os.utime(folder, (old, old))
    assert artifacts_collect(grace_s=3600).artifacts == [f"plot/{lone.digest[:12]}"]
    assert not folder.exists()


def test_what_is_made_again_is_young_again(root: Version, tmp_path: Path) -> None:
    lone = grove.stored("plot")
    folder = store().path("plot", lone.digest)
    old = time.time() - 7200
    os.utime(folder, (old, old))
    again = tmp_path / "again"
    again.mkdir()
    for file in folder.iterdir():
        (again / file.name).write_bytes(file.read_bytes())
    assert store().ingest("plot", again).digest == lone.digest
    assert artifacts_collect(grace_s=3600).artifacts == []


def test_a_job_cannot_attach_what_was_collected_meanwhile(model: Version) -> None:
    tuning = jobs_in_order(model)[0]
    worker = grove.claim(tuning)
    made = grove.stored("hplm")
    assert collect() == [f"hplm/{made.digest[:12]}"]
    with pytest.raises(ArtifactDamaged):
        job_succeed(job_id=tuning.pk, worker=worker, metrics={}, artifacts=[("hplm", made)])


def test_staging_folders_go_with_their_jobs(model: Version, domain: Version) -> None:
    running, ended, gone = jobs_in_order(model)[0].pk, jobs_in_order(domain)[0].pk, uuid4()
    for job_id in (running, ended, gone):
        staging_folder(store().root, job_id).mkdir(parents=True)
    (store().root / ".staging" / "not a job").mkdir()
    assert set(artifacts_collect(grace_s=0).staging) == {str(ended), str(gone)}
    assert staging_folder(store().root, running).is_dir()
    assert not staging_folder(store().root, ended).exists()


def test_the_command_says_what_it_would_do(root: Version, acme: Household) -> None:
    version = grove.ready_hplm(root, "spam", acme)
    hplm_delete(hplm=grove.hplm_of(version), actor=None)
    out = StringIO()
    call_command("collect_artifacts", "--dry-run", "--grace-hours", "0", stdout=out)
    assert f"Would remove hplm/{version.digest[:12]}" in out.getvalue()
    call_command("collect_artifacts", "--grace-hours", "0", stdout=out)
    assert "Removed 1 artifacts" in out.getvalue()


# --- any tree ---------------------------------------------------------------------------------------------
def _pick(place: int, *kinds: str) -> Version | None:
    ready = Version.unscoped.filter(state="ready", kind__in=kinds).order_by("pk")
    return ready[place % len(ready)] if ready else None


def _new_domain(place: int, home: Household) -> None:
    above = _pick(place, "root", "domain")
    if above is not None:
        text = grove.corpus(None, f"text{next(_serial)}")
        do_jobs(domain_create(tenant=None, parent=above, name=f"d{next(_serial)}", corpus=text, actor=None))


def _update_domain(place: int, home: Household) -> None:
    version = _pick(place, "domain")
    if version is not None:
        text = grove.corpus(None, f"text{next(_serial)}")
        do_jobs(domain_update(domain=grove.domain_of(version), corpus=text, actor=None))


def _compact(place: int, home: Household) -> None:
    version = _pick(place, "domain")
    if version is not None:
        do_jobs(domain_compact(domain=grove.domain_of(version), actor=None))


def _grow(place: int, home: Household) -> None:
    version = _pick(place, "domain")
    if version is not None:
        do_jobs(domain_grow(domain=grove.domain_of(version), actor=None))


def _half_a_domain(place: int, home: Household) -> None:
    """The lower layers are there, the table is still being built."""
    above = _pick(place, "root", "domain")
    if above is not None:
        text = grove.corpus(None, f"text{next(_serial)}")
        version = domain_create(tenant=None, parent=above, name=f"d{next(_serial)}", corpus=text, actor=None)
        do_job(jobs_in_order(version)[0])


def _fail_job(place: int, home: Household) -> None:
    queued = Job.unscoped.filter(state="queued").order_by("created_at")
    if queued:
        job_cancel(job=queued[place % len(queued)], actor=None)


def _new_hplm(place: int, home: Household) -> None:
    above = _pick(place, "root", "domain")
    if above is not None:
        version = hplm_create(
            tenant=home.tenant, name=f"m{next(_serial)}", parent=above, dataset=home.dataset, actor=None
        )
        if place % 3:
            do_jobs(version)


def _update_hplm(place: int, home: Household) -> None:
    version = _pick(place, "hplm")
    if version is not None:
        do_jobs(hplm_update(hplm=grove.hplm_of(version), dataset=home.dataset, actor=None))


def _delete_hplm(place: int, home: Household) -> None:
    version = _pick(place, "hplm")
    if version is not None:
        hplm_delete(hplm=grove.hplm_of(version), actor=None)


def _retire_domain(place: int, home: Household) -> None:
    version = _pick(place, "domain")
    if version is not None:
        version_move(version_id=version.pk, from_state=VersionState.READY, to=VersionState.RETIRED)


GROWTH: dict[str, Callable[[int, Household], None]] = {
    "new domain": _new_domain,
    "update domain": _update_domain,
    "compact": _compact,
    "grow": _grow,
    "half a domain": _half_a_domain,
    "fail a job": _fail_job,
    "new hPLM": _new_hplm,
    "update hPLM": _update_hplm,
    "delete hPLM": _delete_hplm,
    "retire domain": _retire_domain,
}
trees = st.lists(st.tuples(st.sampled_from(sorted(GROWTH)), st.integers(0, 5)), min_size=2, max_size=12)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree=trees)
def test_whatever_the_tree_all_that_lives_can_still_be_read_built_upon_and_retried(
    tree: list[tuple[str, int]], root: Version, acme: Household
) -> None:
    acme.tenant.quota.max_active_jobs = acme.tenant.quota.max_hplms = 10_000
    acme.tenant.quota.save(update_fields=["max_active_jobs", "max_hplms"])
    for act, place in tree:
        try:
            GROWTH[act](place, acme)
        except HmiError:
            continue
    before = {artifact.pk for artifact in Artifact.objects.all()}
    promised = artifacts_collect(grace_s=0, dry_run=True)
    assert {artifact.pk for artifact in Artifact.objects.all()} == before
    assert artifacts_collect(grace_s=0) == promised
    for version in Version.unscoped.exclude(state="retired").exclude(hplm__deleted_at__isnull=False):
        _check_whole(version)
    for artifact in Artifact.objects.all():
        store().verify(artifact.kind, artifact.digest)
    assert artifacts_collect(grace_s=0).artifacts == []


def _check_whole(version: Version) -> None:
    """Everything that serving, building upon or retrying this version reads is there."""
    inputs = build_inputs(version)
    for artifact in (inputs.root, inputs.lower, *inputs.plots):
        assert artifact is not None
        store().verify(artifact.kind, artifact.digest)
    if version.kind == VersionKind.HPLM and version.state == VersionState.READY:
        assert inputs.hplm is not None
    for job in Job.unscoped.filter(version=version, kind="compact").exclude(state="succeeded"):
        for digest in job.params["plots"]:
            store().verify("plot", digest)
    if version.state == VersionState.FAILED:
        cancelled = Job.unscoped.filter(version=version, state="cancelled").order_by("created_at").first()
        if cancelled is not None:
            job_retry(job=cancelled, actor=None)
            do_jobs(version)
            assert Version.unscoped.get(pk=version.pk).state == VersionState.READY
