"""A job whose process the kernel kills for want of memory, and one that somebody kills."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.jobs.world import World, let_lease_run_out
from tests.integration.versiontree.tree_factory import jobs_in_order
from versiontree.artifact_store import ArtifactStore
from versiontree.jobs.models import Job
from versiontree.jobs.services.control import job_cancel
from workers import job_process
from workers.failures import OUT_OF_MEMORY
from workers.jobs import convert
from workers.jobs.outcome import JobOutcome
from workers.tasks import run_job
from workers.training.gradient_accumulation import initial_accumulation_steps

Run = Callable[[Job, ArtifactStore, Path, object], JobOutcome]


@pytest.fixture
def job(world: World) -> Job:
    """A queued job."""
    return jobs_in_order(world.register_root())[0]


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which the kernel counts whom it killed for want of memory."""
    monkeypatch.setattr(job_process, "PROC", tmp_path)
    monkeypatch.setattr(job_process, "CGROUPS", tmp_path / "none")
    counter = tmp_path / "vmstat"
    counter.write_text("pgfault 5\noom_kill 3\n")
    return counter


def killed_for_memory(kernel: Path) -> Run:
    def run(*_: object) -> JobOutcome:
        kernel.write_text(f"oom_kill {job_process.oom_kill_count() + 1}\n")
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    return run


def killed(*_: object) -> JobOutcome:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def tells_its_parts(*_: object) -> JobOutcome:
    return JobOutcome({"parts": initial_accumulation_steps()})


def deliver(job: Job, run: Run, monkeypatch: pytest.MonkeyPatch) -> Job:
    """The job as it is after a worker had it in hand."""
    monkeypatch.setattr(convert, "run", run)
    run_job(str(job.pk))
    return Job.unscoped.get(pk=job.pk)


def test_job_killed_for_memory_is_requeued_with_half_the_batch(
    job: Job, kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    after = deliver(job, killed_for_memory(kernel), monkeypatch)
    assert (after.state, after.attempt, after.error_code) == ("queued", 1, "")
    event = after.events.latest("pk")
    assert event.data["code"] == "out_of_memory"
    assert "memory" in event.message
    again = deliver(job, tells_its_parts, monkeypatch)
    assert (again.state, again.metrics, again.attempt) == ("succeeded", {"parts": 2}, 2)
    assert initial_accumulation_steps() == 1


def test_job_killed_for_memory_twice_fails(job: Job, kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        after = deliver(job, killed_for_memory(kernel), monkeypatch)
    assert (after.state, after.error_code, after.error_message) == ("failed", "out_of_memory", OUT_OF_MEMORY)
    assert [one.state for one in jobs_in_order(job.version)] == ["failed", "cancelled"]


def test_job_killed_for_memory_at_its_last_attempt_fails(
    job: Job, kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Job.unscoped.filter(pk=job.pk).update(max_attempts=1)
    after = deliver(job, killed_for_memory(kernel), monkeypatch)
    assert (after.state, after.error_code) == ("failed", "out_of_memory")


def test_killed_job_is_requeued_by_its_lease_with_the_same_batch(
    job: Job, kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert deliver(job, killed, monkeypatch).state == "running"
    let_lease_run_out(job)
    again = deliver(job, tells_its_parts, monkeypatch)
    assert (again.state, again.metrics) == ("succeeded", {"parts": 1})


def test_canceled_job_killed_for_memory_is_canceled(
    world: World, job: Job, kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_: object) -> JobOutcome:
        job_cancel(job=job, actor=world.staff)
        return killed_for_memory(kernel)(job, ArtifactStore(kernel), kernel, None)

    after = deliver(job, run, monkeypatch)
    assert (after.state, after.error_code) == ("cancelled", "job_cancelled")


def test_a_worker_that_is_stopping_says_nothing_about_memory(
    job: Job, kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_process, "is_stopping", lambda: True)
    assert deliver(job, killed_for_memory(kernel), monkeypatch).state == "running"


def test_a_job_that_another_worker_holds_by_now_is_left_alone(
    job: Job, kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = f"{os.uname().nodename}:{os.getpid()}:0badcafe"

    def run(*_: object) -> JobOutcome:
        Job.unscoped.filter(pk=job.pk).update(worker=other)
        return killed_for_memory(kernel)(job, ArtifactStore(kernel), kernel, None)

    after = deliver(job, run, monkeypatch)
    assert (after.state, after.worker) == ("running", other)


def test_the_count_of_its_own_control_group_comes_before_the_machine_s(
    kernel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert job_process.oom_kill_count() == 3
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text("4:memory:/old\n0::/system.slice/hmi.service\n")
    group = tmp_path / "none" / "system.slice" / "hmi.service"
    group.mkdir(parents=True)
    (group / "memory.events").write_text("low 0\noom 9\noom_kill 7\noom_group_kill 1\n")
    assert job_process.oom_kill_count() == 7
    kernel.unlink()
    (group / "memory.events").unlink()
    assert job_process.oom_kill_count() == 0
