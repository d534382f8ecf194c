"""Who may work on a job: deliveries, leases, heartbeats, and the reaper of those that ran out."""

from datetime import timedelta
from uuid import UUID

import pytest

from tenants.base.errors import ErrorCode
from tests.integration.versiontree import tree_factory
from versiontree.jobs.models import Job, JobState
from versiontree.jobs.services.control import job_cancel
from versiontree.jobs.services.lease_recovery import leases_recover
from versiontree.jobs.services.lifecycle import (
    job_claim,
    job_confirm_cancel,
    job_fail,
    job_heartbeat,
    job_release,
    job_succeed,
)
from versiontree.jobs.services.transitions import LeaseLost
from versiontree.tree.models import Version, VersionArtifact

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_platform_scope")]


def test_job_that_is_not_queued_is_not_claimed(tuning: Job, evaluating: Job) -> None:
    worker = tree_factory.claim(tuning)
    for job_id in (tuning.pk, evaluating.pk, UUID(int=0)):
        assert job_claim(job_id=job_id, worker="second", lease_s=30) is None
    tuning.refresh_from_db()
    assert (tuning.attempt, tuning.worker) == (1, worker)
    job_succeed(job_id=tuning.pk, worker=worker, metrics={}, artifacts=[])
    assert job_claim(job_id=tuning.pk, worker="late", lease_s=30) is None


def test_a_heartbeat_renews_the_lease_and_writes_progress(tuning: Job) -> None:
    worker = tree_factory.claim(tuning, lease_s=1)
    before = Job.unscoped.get(pk=tuning.pk).lease_expires_at
    wanted_stopped = job_heartbeat(
        job_id=tuning.pk,
        worker=worker,
        lease_s=60,
        progress=0.4,
        stage="epoch 2",
        metrics={"loss": 0.5},
        eta=12,
    )
    tuning.refresh_from_db()
    assert not wanted_stopped
    assert before is not None
    assert tuning.lease_expires_at is not None
    assert tuning.lease_expires_at > before + timedelta(seconds=50)
    assert (tuning.progress, tuning.stage, tuning.metrics, tuning.eta_seconds) == (
        0.4,
        "epoch 2",
        {"loss": 0.5},
        12,
    )
    job_heartbeat(job_id=tuning.pk, worker=worker, lease_s=30, progress=1.0000001)
    tuning.refresh_from_db()
    assert tuning.progress == 1.0


def test_a_worker_whose_lease_ran_out_can_write_nothing_more(tuning: Job, building: Version) -> None:
    old = tree_factory.claim(tuning)
    assert leases_recover().requeued == 0
    tree_factory.expire(tuning)
    assert leases_recover().requeued == 1
    new = tree_factory.claim(tuning)
    with pytest.raises(LeaseLost):
        job_heartbeat(job_id=tuning.pk, worker=old, lease_s=30)
    with pytest.raises(LeaseLost):
        job_succeed(
            job_id=tuning.pk, worker=old, metrics={}, artifacts=[("hplm", tree_factory.stored("hplm"))]
        )
    with pytest.raises(LeaseLost):
        job_fail(job_id=tuning.pk, worker=old, code="job_crashed", message="no")
    with pytest.raises(LeaseLost):
        job_confirm_cancel(job_id=tuning.pk, worker=old)
    with pytest.raises(LeaseLost):
        job_release(job_id=tuning.pk, worker=old)
    assert not VersionArtifact.unscoped.filter(version=building).exists()
    assert job_heartbeat(job_id=tuning.pk, worker=new, lease_s=30) is False


def test_a_job_whose_worker_dies_every_time_is_given_up(
    tuning: Job, building: Version, evaluating: Job
) -> None:
    for _ in range(3):
        tree_factory.claim(tuning)
        tree_factory.expire(tuning)
        report = leases_recover()
    tuning.refresh_from_db()
    building.refresh_from_db()
    evaluating.refresh_from_db()
    assert (report.failed, tuning.state, tuning.error_code) == (1, JobState.FAILED, ErrorCode.JOB_CRASHED)
    assert (building.state, evaluating.state) == ("failed", JobState.CANCELLED)


def test_job_of_a_dead_worker_is_cancelled_if_that_was_requested(tuning: Job, building: Version) -> None:
    tree_factory.claim(tuning)
    job_cancel(job=tuning, actor=None)
    tree_factory.expire(tuning)
    assert leases_recover().cancelled == 1
    tuning.refresh_from_db()
    building.refresh_from_db()
    assert (tuning.state, building.state) == (JobState.CANCELLED, "failed")


def test_worker_that_shuts_down_releases_its_job_or_cancels_it_as_requested(tuning: Job) -> None:
    worker = tree_factory.claim(tuning)
    job_release(job_id=tuning.pk, worker=worker)
    tuning.refresh_from_db()
    assert (tuning.state, tuning.attempt, tuning.lease_expires_at) == (JobState.QUEUED, 0, None)
    worker = tree_factory.claim(tuning)
    job_cancel(job=tuning, actor=None)
    job_release(job_id=tuning.pk, worker=worker)
    tuning.refresh_from_db()
    assert tuning.state == JobState.CANCELLED
