"""One training job at a time on a machine."""

import threading
from pathlib import Path

import pytest
from django.db import connection

from tenants.base.dispatch import TRAINING_QUEUE
from tenants.base.machine_lock import machine_lock
from tests.integration.jobs.world import World, state_of
from tests.integration.versiontree.tree_factory import jobs_in_order
from tests.processes import wait_until
from versiontree.jobs.models import Job
from versiontree.jobs.services.control import job_cancel
from versiontree.jobs.services.transitions import WAITING_FOR_MACHINE
from workers import runner
from workers.jobs import convert
from workers.jobs.outcome import JobOutcome


@pytest.fixture
def job(world: World) -> Job:
    """A queued job."""
    return jobs_in_order(world.register_root())[0]


def deliver(job: Job) -> threading.Thread:
    """What a Celery task does, in a thread of its own."""

    def run() -> None:
        runner.run_job(job.pk)
        connection.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def says_it_waits(job: Job) -> bool:
    return Job.unscoped.filter(pk=job.pk, state="queued", stage=WAITING_FOR_MACHINE).exists()


def test_a_job_waits_in_the_queue_while_its_machine_is_busy(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(convert, "run", lambda *_: JobOutcome({}))
    with machine_lock(TRAINING_QUEUE) as mine:
        assert mine
        thread = deliver(job)
        wait_until(lambda: says_it_waits(job))
    thread.join(30)
    assert state_of(job) == "succeeded"


def test_a_job_that_another_machine_took_is_not_waited_for(job: Job) -> None:
    with machine_lock(TRAINING_QUEUE):
        thread = deliver(job)
        wait_until(lambda: says_it_waits(job))
        job_cancel(job=job, actor=None)
        thread.join(30)
        assert not thread.is_alive()
    assert state_of(job) == "cancelled"


def test_a_busy_machine_helps_nobody(job: Job) -> None:
    with machine_lock(TRAINING_QUEUE), machine_lock(TRAINING_QUEUE) as second:
        assert not second
        runner.help_job(job.pk)
    assert state_of(job) == "queued"


def test_staging_folder_survives_a_released_attempt_and_is_removed_at_the_end(
    job: Job, artifact_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tenants.base.child_process import WorkerStopping
    from workers.workspace import job_staging

    def interrupted(job: Job, store: object, *_: object) -> JobOutcome:
        (job_staging(runner._store(), job.pk) / "half").write_text("done")
        raise WorkerStopping

    def goes_on(job: Job, *_: object) -> JobOutcome:
        assert (job_staging(runner._store(), job.pk) / "half").read_text() == "done"
        return JobOutcome({})

    monkeypatch.setattr(convert, "run", interrupted)
    runner.run_job(job.pk)
    assert (state_of(job), len(list(artifact_root.glob(".staging/*/half")))) == ("queued", 1)
    monkeypatch.setattr(convert, "run", goes_on)
    runner.run_job(job.pk)
    assert (state_of(job), list(artifact_root.glob(".staging"))) == ("succeeded", [])


def test_a_failed_job_keeps_nothing(job: Job, artifact_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from workers.workspace import job_staging

    def full(job: Job, *_: object) -> JobOutcome:
        job_staging(runner._store(), job.pk)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(convert, "run", full)
    runner.run_job(job.pk)
    job.refresh_from_db()
    assert (job.state, job.error_code) == ("failed", "out_of_disk")
    assert list(artifact_root.glob(".staging")) == []
