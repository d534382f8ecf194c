"""Whatever a tree went through, collecting leaves all that lives whole and the rest gone."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from django.conf import settings as django_settings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenants.base.errors import HmiError
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.tree_factory import TenantFixture, do_job, do_jobs, jobs_in_order
from versiontree.artifact_store import ArtifactStore
from versiontree.jobs.models import Job
from versiontree.jobs.services.control import job_cancel, job_retry
from versiontree.tree.models import Artifact, Version
from versiontree.tree.models.version import VersionKind, VersionState
from versiontree.tree.selectors.lineage import build_inputs
from versiontree.tree.services.compaction import domain_compact
from versiontree.tree.services.domains import domain_create, domain_update
from versiontree.tree.services.garbage_collection import artifacts_collect
from versiontree.tree.services.hplms import hplm_create, hplm_delete, hplm_update
from versiontree.tree.services.versions import version_transition

pytestmark = [pytest.mark.slow, pytest.mark.django_db, pytest.mark.usefixtures("in_platform_scope")]
_serial = count(1)


def store() -> ArtifactStore:
    return ArtifactStore(Path(django_settings.HMI_ARTIFACT_ROOT))


def _pick(place: int, *kinds: str) -> Version | None:
    ready = Version.unscoped.filter(state="ready", kind__in=kinds).order_by("pk")
    return ready[place % len(ready)] if ready else None


def _new_domain(place: int, home: TenantFixture) -> None:
    above = _pick(place, "root", "domain")
    if above is not None:
        text = tree_factory.corpus(None, f"text{next(_serial)}")
        do_jobs(domain_create(tenant=None, parent=above, name=f"d{next(_serial)}", corpus=text, actor=None))


def _update_domain(place: int, home: TenantFixture) -> None:
    version = _pick(place, "domain")
    if version is not None:
        text = tree_factory.corpus(None, f"text{next(_serial)}")
        do_jobs(domain_update(domain=tree_factory.domain_of(version), corpus=text, actor=None))


def _compact(place: int, home: TenantFixture) -> None:
    version = _pick(place, "domain")
    if version is not None:
        do_jobs(domain_compact(domain=tree_factory.domain_of(version), actor=None))


def _half_a_domain(place: int, home: TenantFixture) -> None:
    """The lower layers are there, the table is still being built."""
    above = _pick(place, "root", "domain")
    if above is not None:
        text = tree_factory.corpus(None, f"text{next(_serial)}")
        version = domain_create(tenant=None, parent=above, name=f"d{next(_serial)}", corpus=text, actor=None)
        do_job(jobs_in_order(version)[0])


def _fail_job(place: int, home: TenantFixture) -> None:
    queued = Job.unscoped.filter(state="queued").order_by("created_at")
    if queued:
        job_cancel(job=queued[place % len(queued)], actor=None)


def _new_hplm(place: int, home: TenantFixture) -> None:
    above = _pick(place, "root", "domain")
    if above is not None:
        version = hplm_create(
            tenant=home.tenant, name=f"m{next(_serial)}", parent=above, dataset=home.dataset, actor=None
        )
        if place % 3:
            do_jobs(version)


def _update_hplm(place: int, home: TenantFixture) -> None:
    version = _pick(place, "hplm")
    if version is not None:
        do_jobs(hplm_update(hplm=tree_factory.hplm_of(version), dataset=home.dataset, actor=None))


def _delete_hplm(place: int, home: TenantFixture) -> None:
    version = _pick(place, "hplm")
    if version is not None:
        hplm_delete(hplm=tree_factory.hplm_of(version), actor=None)


def _retire_domain(place: int, home: TenantFixture) -> None:
    version = _pick(place, "domain")
    if version is not None:
        version_transition(version_id=version.pk, from_state=VersionState.READY, to=VersionState.RETIRED)


GROWTH: dict[str, Callable[[int, TenantFixture], None]] = {
    "new domain": _new_domain,
    "update domain": _update_domain,
    "compact": _compact,
    "half a domain": _half_a_domain,
    "fail a job": _fail_job,
    "new model": _new_hplm,
    "update model": _update_hplm,
    "delete model": _delete_hplm,
    "retire domain": _retire_domain,
}
trees = st.lists(st.tuples(st.sampled_from(sorted(GROWTH)), st.integers(0, 5)), min_size=2, max_size=12)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree=trees)
def test_collecting_any_tree_keeps_all_that_living_versions_need(
    tree: list[tuple[str, int]], root: Version, acme: TenantFixture
) -> None:
    acme.tenant.quota.max_active_jobs = acme.tenant.quota.max_models = 10_000
    acme.tenant.quota.save(update_fields=["max_active_jobs", "max_models"])
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
