"""What a job goes through, and what that means for its version."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_django import Settings

from tenants.base.errors import ErrorCode, HmiError
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.tree_factory import TenantFixture
from versiontree.jobs.models import Job, JobEvent, JobState
from versiontree.jobs.services.control import job_cancel, job_retry
from versiontree.jobs.services.lifecycle import (
    job_claim,
    job_confirm_cancel,
    job_fail,
    job_heartbeat,
    job_succeed,
)
from versiontree.tree.models import Alias, Version, VersionArtifact
from versiontree.tree.services.version_completion import version_retry

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_platform_scope")]


def test_jobs_run_one_after_the_other_and_the_last_makes_the_version_ready(
    building: Version, tuning: Job, evaluating: Job
) -> None:
    assert (tuning.state, evaluating.state) == (JobState.QUEUED, JobState.WAITING)
    tree_factory.do_job(tuning)
    evaluating.refresh_from_db()
    building.refresh_from_db()
    assert (evaluating.state, building.state, building.digest) == (JobState.QUEUED, "building", "")
    tree_factory.do_job(evaluating, macro_f1=0.9)
    building.refresh_from_db()
    made = VersionArtifact.unscoped.get(version=building, role="hplm")
    assert (building.state, building.digest) == ("ready", made.artifact.digest)
    assert building.metrics["evaluate"] == {"macro_f1": 0.9}
    assert Alias.unscoped.get(hplm=building.hplm, name="default").version == building


def test_failed_job_fails_its_version_and_cancels_those_behind_it_until_a_retry(
    tuning: Job, building: Version, evaluating: Job, acme: TenantFixture
) -> None:
    worker = tree_factory.claim(tuning)
    job_fail(job_id=tuning.pk, worker=worker, code="too_few_rows", message="Too few rows.", traceback="…")
    for row in (tuning, building, evaluating):
        row.refresh_from_db()
    assert (tuning.state, tuning.error_code, tuning.error_message) == (
        JobState.FAILED,
        "too_few_rows",
        "Too few rows.",
    )
    assert building.state == "failed"
    assert (evaluating.state, evaluating.error_message) == (JobState.CANCELLED, "Fine-tune failed.")
    job_retry(job=tuning, actor=acme.developer)
    for row in (tuning, building, evaluating):
        row.refresh_from_db()
    assert (tuning.state, tuning.error_message, tuning.attempt) == (JobState.QUEUED, "", 0)
    assert (building.state, evaluating.state) == ("building", JobState.WAITING)
    assert tree_factory.do_jobs(building).state == "ready"


def test_a_retry_of_the_second_job_does_not_repeat_the_first(
    building: Version, tuning: Job, evaluating: Job
) -> None:
    tree_factory.do_job(tuning)
    worker = tree_factory.claim(evaluating)
    job_fail(job_id=evaluating.pk, worker=worker, code="job_crashed", message="Boom.")
    version_retry(version=building, actor=None)
    tuning.refresh_from_db()
    assert tuning.state == JobState.SUCCEEDED
    assert tree_factory.do_jobs(building).state == "ready"


def test_a_job_behind_another_waits_again_when_it_is_retried_and_is_not_retried_alone(
    tuning: Job, evaluating: Job
) -> None:
    job_cancel(job=evaluating, actor=None)
    job_retry(job=evaluating, actor=None)
    evaluating.refresh_from_db()
    assert evaluating.state == JobState.WAITING
    job_cancel(job=tuning, actor=None)
    with pytest.raises(HmiError) as refused:
        job_retry(job=evaluating, actor=None)
    assert refused.value.code == ErrorCode.INVALID_TRANSITION
    assert refused.value.details == {"job": str(tuning.pk)}


def test_cancelling_a_queued_job_ends_it_at_once(tuning: Job, building: Version, evaluating: Job) -> None:
    job_cancel(job=tuning, actor=None)
    for row in (tuning, building, evaluating):
        row.refresh_from_db()
    assert (tuning.state, evaluating.state, building.state) == (
        JobState.CANCELLED,
        JobState.CANCELLED,
        "failed",
    )
    assert job_claim(job_id=tuning.pk, worker="w", lease_s=30) is None


def test_cancelling_a_running_job_asks_its_worker(tuning: Job, building: Version) -> None:
    worker = tree_factory.claim(tuning)
    job_cancel(job=tuning, actor=None)
    job_cancel(job=tuning, actor=None)  # impatience changes nothing
    tuning.refresh_from_db()
    assert tuning.state == JobState.RUNNING
    assert job_heartbeat(job_id=tuning.pk, worker=worker, lease_s=30) is True
    job_confirm_cancel(job_id=tuning.pk, worker=worker)
    tuning.refresh_from_db()
    building.refresh_from_db()
    assert (tuning.state, building.state) == (JobState.CANCELLED, "failed")
    assert JobEvent.unscoped.filter(job=tuning, kind="cancel_requested").count() == 1


def test_a_job_that_finishes_after_a_cancel_request_counts_as_cancelled(
    tuning: Job, building: Version, evaluating: Job
) -> None:
    worker = tree_factory.claim(tuning)
    job_cancel(job=tuning, actor=None)
    ended = job_succeed(
        job_id=tuning.pk, worker=worker, metrics={}, artifacts=[("hplm", tree_factory.stored("hplm"))]
    )
    evaluating.refresh_from_db()
    assert (ended.state, evaluating.state) == (JobState.CANCELLED, JobState.CANCELLED)
    assert not VersionArtifact.unscoped.filter(version=building).exists()


def test_ended_job_is_not_canceled_and_active_or_succeeded_job_is_not_retried(tuning: Job) -> None:
    def refuses(act: Callable[..., object]) -> bool:
        with pytest.raises(HmiError) as refused:
            act(job=tuning, actor=None)
        return refused.value.code == ErrorCode.INVALID_TRANSITION

    assert refuses(job_retry)
    job_cancel(job=tuning, actor=None)
    assert refuses(job_cancel)
    job_retry(job=tuning, actor=None)
    tree_factory.do_job(tuning)
    assert refuses(job_retry)
    assert refuses(job_cancel)


def test_an_artifact_changed_on_disk_is_not_accepted(
    tuning: Job, building: Version, settings: Settings
) -> None:
    worker = tree_factory.claim(tuning)
    made = tree_factory.stored("hplm")
    folder = Path(settings.HMI_ARTIFACT_ROOT) / "hplm" / made.digest[:2] / made.digest
    (folder / "hplm.json").unlink()
    (folder / "hplm.json").write_text("something else")
    with pytest.raises(HmiError) as refused:
        job_succeed(job_id=tuning.pk, worker=worker, metrics={}, artifacts=[("hplm", made)])
    assert refused.value.code == ErrorCode.INTERNAL
    tuning.refresh_from_db()
    assert tuning.state == JobState.RUNNING
    assert not VersionArtifact.unscoped.filter(version=building).exists()


def test_a_version_without_all_its_artifacts_does_not_become_ready(
    building: Version, tuning: Job, evaluating: Job
) -> None:
    worker = tree_factory.claim(tuning)
    job_succeed(job_id=tuning.pk, worker=worker, metrics={}, artifacts=[])
    evaluating.refresh_from_db()
    last = tree_factory.claim(evaluating)
    with pytest.raises(HmiError) as refused:
        job_succeed(job_id=evaluating.pk, worker=last, metrics={}, artifacts=[])
    assert refused.value.code == ErrorCode.INTERNAL
    evaluating.refresh_from_db()
    building.refresh_from_db()
    assert (evaluating.state, building.state) == (JobState.RUNNING, "building")
