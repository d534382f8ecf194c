"""Whatever workers, people and the reaper do, in any order, jobs and versions stay sound."""

from collections.abc import Callable
from contextlib import suppress
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenants.base.errors import HmiError
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.tree_factory import TenantFixture
from versiontree.artifact_store import StoredArtifact
from versiontree.jobs.models import LEGAL_TRANSITIONS, Job, JobEvent, JobState
from versiontree.jobs.services.control import job_cancel, job_retry
from versiontree.jobs.services.lease_recovery import leases_recover
from versiontree.jobs.services.lifecycle import (
    job_claim,
    job_confirm_cancel,
    job_fail,
    job_heartbeat,
    job_release,
    job_succeed,
)
from versiontree.tree.models import Alias, Version
from versiontree.tree.models.version import LEGAL_VERSION_TRANSITIONS, VersionState

pytestmark = [pytest.mark.slow, pytest.mark.django_db, pytest.mark.usefixtures("in_platform_scope")]
_serial = count(1)


def _expire(job: Job, _: StoredArtifact) -> None:
    tree_factory.expire(job)
    leases_recover()


def _succeed(job: Job, made: StoredArtifact) -> None:
    artifacts = [("hplm", made)] if job.kind == "fine_tune" else []
    job_succeed(job_id=job.pk, worker=job.worker, metrics={}, artifacts=artifacts)


ACTS: dict[str, Callable[[Job, StoredArtifact], object]] = {
    "claim": lambda job, _: job_claim(job_id=job.pk, worker=f"w{next(_serial)}", lease_s=60),
    "heartbeat": lambda job, _: job_heartbeat(job_id=job.pk, worker=job.worker, lease_s=60),
    "succeed": _succeed,
    "fail": lambda job, _: job_fail(job_id=job.pk, worker=job.worker, code="job_crashed", message="x"),
    "acknowledge cancel": lambda job, _: job_confirm_cancel(job_id=job.pk, worker=job.worker),
    "release": lambda job, _: job_release(job_id=job.pk, worker=job.worker),
    "cancel": lambda job, _: job_cancel(job=job, actor=None),
    "retry": lambda job, _: job_retry(job=job, actor=None),
    "expire": _expire,
}
histories = st.lists(st.tuples(st.sampled_from(sorted(ACTS)), st.integers(0, 1)), max_size=14)


@pytest.fixture
def made() -> StoredArtifact:
    return tree_factory.stored("hplm")


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=histories)
def test_no_history_breaks_a_job_or_its_version(
    history: list[tuple[str, int]], root: Version, acme: TenantFixture, made: StoredArtifact
) -> None:
    acme.tenant.quota.max_active_jobs = acme.tenant.quota.max_models = 10_000
    acme.tenant.quota.save(update_fields=["max_active_jobs", "max_models"])
    version = tree_factory.new_hplm(root, f"model-{next(_serial)}", acme)
    for act, place in history:
        before = tree_factory.jobs_in_order(version)
        was = VersionState(Version.unscoped.get(pk=version.pk).state)
        with suppress(HmiError):
            ACTS[act](before[place], made)
        after = tree_factory.jobs_in_order(version)
        for old, new in zip(before, after, strict=True):
            _check_step(old, new)
        _check_whole(version, after, was)


def _check_step(old: Job, new: Job) -> None:
    assert new.state == old.state or JobState(new.state) in LEGAL_TRANSITIONS[JobState(old.state)]
    events = JobEvent.unscoped.filter(job=new, kind__in=JobState.values).order_by("-pk")
    newest = events.first()
    assert newest is not None
    assert newest.kind == new.state
    assert new.attempt <= new.max_attempts


def _check_whole(version: Version, jobs: list[Job], was: VersionState) -> None:
    states = [JobState(job.state) for job in jobs]
    now = VersionState(Version.unscoped.get(pk=version.pk).state)
    if all(state == JobState.SUCCEEDED for state in states):
        assert now == VersionState.READY
    elif {JobState.FAILED, JobState.CANCELLED} & set(states):
        assert now == VersionState.FAILED
    else:
        assert now == VersionState.BUILDING
        assert sum(state in (JobState.QUEUED, JobState.RUNNING) for state in states) == 1
    assert now == was or now in LEGAL_VERSION_TRANSITIONS[was]
    assert Alias.unscoped.filter(hplm=version.hplm).exists() == (now == VersionState.READY)
