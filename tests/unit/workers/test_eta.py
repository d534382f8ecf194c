"""How long a job says it will still take."""

from typing import cast

import pytest

from workers.lease import Event, JobLease, Progress
from workers.reporter import DatabaseReporter


class Listener:
    """What a job tells, and a clock that the test moves."""

    lost = False
    cancel_requested = False

    def __init__(self) -> None:
        self.now = 0.0
        self.last = Progress()

    def update(self, report: Progress, event: Event | None = None) -> None:
        self.last = report


def reporter(listener: Listener, *shares: tuple[str, float]) -> DatabaseReporter:
    return DatabaseReporter(cast("JobLease", listener), shares, clock=lambda: listener.now)


def test_a_job_that_goes_on_counts_only_what_it_does_itself() -> None:
    listener = Listener()
    job = reporter(listener, ("train", 1.0))
    job.start_stage("train", 100)
    listener.now = 1.0
    job.report(60)
    assert listener.last.progress == pytest.approx(0.6)
    assert listener.last.eta_seconds is None
    listener.now = 11.0
    job.report(70)
    assert listener.last.eta_seconds == pytest.approx(33.0)


def test_stages_that_an_earlier_attempt_ended_count_for_nothing() -> None:
    listener = Listener()
    job = reporter(listener, ("count", 0.5), ("train", 0.5))
    job.start_stage("count", 1000)
    job.report(1000)
    job.start_stage("train", 100)
    listener.now = 10.0
    for step in range(1, 11):
        job.report(step)
    assert listener.last.progress == pytest.approx(0.55)
    assert listener.last.eta_seconds == pytest.approx(10 * 0.45 / 0.05)


def test_a_job_from_the_start_counts_all_of_it() -> None:
    listener = Listener()
    job = reporter(listener, ("train", 1.0))
    job.start_stage("train", 10)
    listener.now = 10.0
    job.report(1)
    assert listener.last.eta_seconds == pytest.approx(90.0)
