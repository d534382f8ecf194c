"""Real Celery workers: killed, stopped, without a message, asked to give up a job; and their log."""

import json
from datetime import timedelta
from itertools import dropwhile
from pathlib import Path

import pytest
import redis
from django.utils import timezone

from tests.integration.jobs.conftest import StartWorker
from tests.integration.jobs.world import (
    World,
    at_stage,
    let_lease_run_out,
    make_endless,
    make_short,
    state_of,
    store,
    wait_for_jobs,
)
from tests.integration.versiontree.tree_factory import jobs_in_order
from tests.processes import CeleryWorker, wait_until
from versiontree.jobs.models import Job, JobEvent
from versiontree.jobs.services.control import job_cancel
from versiontree.jobs.services.lease_recovery import leases_recover
from versiontree.tree.models import Version, VersionArtifact
from workers.tasks import run_job

pytestmark = [pytest.mark.timeout(1800)]


@pytest.fixture
def fine_tune(world: World, tmp_path: Path) -> Job:
    """A queued fine-tuning job that does not end by itself."""
    root = world.ready_root(tmp_path / "root")
    job = jobs_in_order(world.create_hplm(root))[0]
    make_endless(job)
    return job


def test_a_job_whose_worker_was_killed_is_finished_by_another(
    fine_tune: Job, start_worker: StartWorker
) -> None:
    first = start_worker()
    wait_until(lambda: at_stage(fine_tune, "fine-tune"), first)
    descendants = first.descendants()
    assert len(descendants) == 2
    first.kill()
    wait_until(lambda: not any(process.is_running() for process in descendants))
    assert state_of(fine_tune) == "running"
    make_short(fine_tune)
    let_lease_run_out(fine_tune)
    assert state_of(fine_tune) == "queued"
    second = start_worker()
    wait_for_jobs(lambda: state_of(fine_tune) == "succeeded", second)
    fine_tune.refresh_from_db()
    assert fine_tune.attempt == 2
    assert VersionArtifact.unscoped.filter(version=fine_tune.version).count() == 1
    wait_until(lambda: list((store().root / ".incoming").iterdir()) == [], second)


def test_a_worker_that_is_stopped_hands_its_job_back(fine_tune: Job, start_worker: StartWorker) -> None:
    worker = start_worker()
    wait_until(lambda: at_stage(fine_tune, "fine-tune"), worker)
    assert worker.terminate() == 0
    fine_tune.refresh_from_db()
    assert (fine_tune.state, fine_tune.attempt, fine_tune.error_code) == ("queued", 0, "")
    assert list((store().root / ".incoming").iterdir()) == []


def test_a_running_job_can_be_cancelled_and_one_whose_message_was_lost_is_nudged_again(
    world: World, fine_tune: Job, start_worker: StartWorker, redis_client: redis.Redis
) -> None:
    """The broker forgets everything while the worker is busy with the first of two jobs."""
    worker = start_worker()
    wait_until(lambda: at_stage(fine_tune, "fine-tune"), worker)
    second, _ = jobs_in_order(world.create_hplm(fine_tune.version.domain_or_root(), name="second"))
    redis_client.flushall()
    job_cancel(job=fine_tune, actor=world.owner)
    wait_until(lambda: state_of(fine_tune) == "cancelled", worker)
    version = Version.unscoped.get(pk=fine_tune.version.pk)
    assert version.state == "failed"
    assert [job.state for job in jobs_in_order(version)] == ["cancelled", "cancelled"]
    assert not VersionArtifact.unscoped.filter(version=version).exists()
    assert list((store().root / ".incoming").iterdir()) == []
    Job.unscoped.filter(pk=second.pk).update(dispatched_at=timezone.now())
    assert leases_recover().redispatched == 0
    Job.unscoped.filter(pk=second.pk).update(dispatched_at=timezone.now() - timedelta(seconds=11))
    assert leases_recover().redispatched == 1
    wait_for_jobs(lambda: state_of(second) == "succeeded", worker)


def test_messages_that_come_twice_run_a_job_once_and_in_a_process_of_its_own(
    world: World, fine_tune: Job, start_worker: StartWorker
) -> None:
    make_short(fine_tune)
    for _ in range(2):
        run_job.apply_async(args=(str(fine_tune.pk),), queue="training", priority=fine_tune.priority)
    worker = start_worker(HMI_LOG_FORMAT="json")
    wait_for_jobs(lambda: Version.unscoped.get(pk=fine_tune.version.pk).state == "ready", worker)
    begun = JobEvent.unscoped.filter(job__version=fine_tune.version, kind="running")
    assert begun.count() == 2
    pids = {data["worker"].split(":")[1] for data in begun.values_list("data", flat=True)}
    assert len(pids) == 2
    refusal = f"Job {fine_tune.pk} is not queued"
    wait_until(lambda: worker.output().count(refusal) == 2, worker)
    wait_until(lambda: len(worker.descendants()) == 1, worker)
    assert worker.output().count("Loaded the training libraries") == 1, "the second job finds it loaded"
    assert "libtorch" not in Path(f"/proc/{worker.process.pid}/maps").read_text()
    wait_until(lambda: "succeeded in" in worker.output(), worker)
    logs_as_the_site_does(worker)


def logs_as_the_site_does(worker: CeleryWorker) -> None:
    """Celery's own lines, and those of a job's process."""
    # Python itself warns a root user before there is a log.
    written = dropwhile(lambda line: not line.startswith("{"), worker.output().splitlines())
    said = {line["logger"]: line for line in map(json.loads, written)}
    assert {"celery.worker.strategy", "celery.app.trace", "workers.runner"} <= set(said)
    assert said["workers.runner"]["level"] == "info"
