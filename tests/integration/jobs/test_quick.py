"""Jobs of quick versions: what they make, beside what they run, and what their versions are compared with."""

import threading
from pathlib import Path

import pytest
from django.db import connection

from tenants.base.dispatch import QUICK_QUEUE, TRAINING_QUEUE
from tenants.base.machine_lock import machine_lock
from tests.integration.jobs.world import World, state_of
from tests.integration.versiontree.tree_factory import jobs_in_order
from tests.processes import CeleryWorker, wait_until
from versiontree.jobs.models import Job
from versiontree.jobs.services.transitions import WAITING_FOR_MACHINE
from versiontree.tree.models import Version
from versiontree.tree.promotion import comparison_of_version
from versiontree.tree.resolution import resolve_model
from versiontree.tree.selectors.evaluations import answers_of, evaluation_of
from versiontree.tree.selectors.versions import default_of
from workers.runner import run_job


@pytest.fixture
def trained(world: World, tmp_path: Path) -> Version:
    """The trained version of a new model, whose jobs and that of its quick version are still to be run."""
    return world.create_hplm(world.ready_root(tmp_path / "root"), quick=True)


@pytest.fixture
def job(trained: Version) -> Job:
    """The job of the quick version."""
    return Job.unscoped.get(version__hplm=trained.hplm, kind="quick")


def test_quick_version_is_measured_as_a_trained_one_and_answers_until_that_is_compared_with_it(
    world: World, trained: Version, job: Job
) -> None:
    with machine_lock(TRAINING_QUEUE):  # as a training that runs
        run_job(job.pk)
    quick = job.version
    quick.refresh_from_db()
    assert (quick.state, default_of(trained)) == ("ready", quick)
    assert resolve_model(world.tenant, "mood").version_number == 1
    assert {"fine_tune", "evaluate", "quick"} == set(quick.metrics)
    evaluation = evaluation_of(world.tenant, quick)
    assert evaluation is not None
    assert len(answers_of(evaluation).answered) == quick.metrics["evaluate"]["rows"]
    for one in jobs_in_order(trained):
        run_job(one.pk)
    trained.refresh_from_db()
    compared = comparison_of_version(trained)
    assert compared is not None
    assert (compared.version, compared.problem, compared.dev_left_out) == (1, "", 0)
    assert compared.dev is not None


def test_worker_of_quick_versions_loads_the_libraries_before_the_first_one(
    world: World, service_env: dict[str, str], tmp_path: Path
) -> None:
    root = world.ready_root(tmp_path / "root")
    worker = CeleryWorker(service_env, tmp_path, queue="quick")
    try:
        wait_until(lambda: "Loaded the training libraries" in worker.output(), worker)
        trained = world.create_hplm(root, quick=True)
        wait_until(lambda: default_of(trained) is not None, worker)
    finally:
        worker.end()
    assert {state_of(one) for one in jobs_in_order(trained)} == {"queued", "waiting"}


def test_one_quick_version_at_a_time_is_made_on_a_machine(job: Job) -> None:
    def run() -> None:
        run_job(job.pk)
        connection.close()

    with machine_lock(QUICK_QUEUE):
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        waiting = Job.unscoped.filter(pk=job.pk, state="queued", stage=WAITING_FOR_MACHINE)
        wait_until(waiting.exists)
    thread.join(30)
    assert state_of(job) == "succeeded"
