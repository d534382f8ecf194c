"""The lease of a running job, and the process that its work has."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from django.db import connection, connections
from django.utils import timezone

from tenants.base.child_process import TASK_TIME_LIMIT_S, run_in_child
from tests.integration.jobs.world import World, let_lease_run_out
from tests.integration.versiontree.tree_factory import jobs_in_order
from tests.processes import wait_until
from versiontree.jobs.models import Job, JobEvent
from versiontree.jobs.services.control import job_cancel
from versiontree.jobs.services.lifecycle import job_claim
from workers.lease import Event, JobLease, Progress
from workers.tasks import measure_coverage


@pytest.fixture
def claimed(world: World) -> Job:
    """A convert job, claimed for two seconds by `mine`."""
    job = job_claim(job_id=jobs_in_order(world.register_root())[0].pk, worker="mine", lease_s=2)
    assert job is not None
    return job


def test_a_job_that_says_nothing_for_long_keeps_its_lease(claimed: Job) -> None:
    with JobLease(job_id=claimed.pk, worker="mine", lease_s=2, interval_s=0.2) as keeper:
        beyond = Job.unscoped.filter(pk=claimed.pk, heartbeat_at__gt=claimed.lease_expires_at)
        wait_until(beyond.exists)
        assert not keeper.lost
    claimed.refresh_from_db()
    assert claimed.state == "running"


def test_a_lease_that_ran_out_is_noticed(claimed: Job) -> None:
    with JobLease(job_id=claimed.pk, worker="mine", lease_s=30, interval_s=0.1) as keeper:

        def ran_out() -> bool:
            let_lease_run_out(claimed)  # unless the keeper renews it this very moment
            return keeper.lost

        wait_until(ran_out)
        keeper.update(Progress(0.9, "late"), Event("late", "late", {}))
    claimed.refresh_from_db()
    assert (claimed.state, claimed.stage) == ("queued", "")
    assert not JobEvent.unscoped.filter(job=claimed, kind="late").exists()


def test_a_broken_database_connection_costs_no_lease(claimed: Job) -> None:
    with JobLease(job_id=claimed.pk, worker="mine", lease_s=30, interval_s=0.1) as keeper:
        wait_until(lambda: break_other_connections() > 0)
        broken_at = timezone.now()
        wait_until(Job.unscoped.filter(pk=claimed.pk, heartbeat_at__gt=broken_at).exists)
        assert not keeper.lost


def break_other_connections() -> int:
    """End all sessions of the database but this one; returns how many there were. To end an autovacuum
    worker, which is no client's, would be refused."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND usename = current_user"
        )
        return int(cursor.fetchone()[0])


def test_a_wish_to_cancel_is_heard(world: World, claimed: Job) -> None:
    with JobLease(job_id=claimed.pk, worker="mine", lease_s=30, interval_s=0.1) as keeper:
        job_cancel(job=claimed, actor=world.staff)
        wait_until(lambda: keeper.cancel_requested)


def test_last_report_is_saved_when_the_work_ends(claimed: Job) -> None:
    with JobLease(job_id=claimed.pk, worker="mine") as keeper:
        keeper.update(Progress(0.25, "first"), Event("stage", "first", {}))
        keeper.update(Progress(0.75, "second", {"loss": 1.5}), Event("stage", "second", {}))
    claimed.refresh_from_db()
    assert (claimed.progress, claimed.stage, claimed.metrics) == (0.75, "second", {"loss": 1.5})
    told = JobEvent.unscoped.filter(job=claimed, kind="stage").order_by("pk")
    assert [event.message for event in told] == ["first", "second"]


def test_work_apart_leaves_nothing_in_this_process() -> None:
    seen: list[int] = []
    assert run_in_child(lambda: seen.append(os.getpid())) == 0
    assert seen == []


@pytest.mark.django_db(transaction=True)
def test_work_apart_leaves_a_connection_that_it_inherited_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "close_all", lambda: None)

    def ask() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")

    def ask_and_leave() -> None:
        ask()
        connection.close()

    ask()
    assert run_in_child(ask_and_leave) == 0
    ask()


def test_work_that_is_killed_or_raises_is_told() -> None:
    assert run_in_child(lambda: os.kill(os.getpid(), signal.SIGKILL)) == -signal.SIGKILL
    assert run_in_child(lambda: print(1 / 0)) == 1  # noqa: T201


def test_a_time_limit_ends_the_work_and_its_process(tmp_path: Path) -> None:
    assert measure_coverage.soft_time_limit == TASK_TIME_LIMIT_S
    note = tmp_path / "pid"

    def work() -> None:
        note.write_text(str(os.getpid()))
        time.sleep(60)

    def limit(*_: object) -> None:
        raise SoftTimeLimitExceeded

    def time_out() -> None:
        wait_until(lambda: note.exists() and note.read_text())
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, limit)  # as Celery does in its pool's processes
    timer = threading.Thread(target=time_out)
    timer.start()
    try:
        with pytest.raises(SoftTimeLimitExceeded):
            run_in_child(work)
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)
