"""How long a job says it will still take."""

from itertools import pairwise
from typing import cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from versiontree.tree.selectors.past_jobs import START_STAGE
from workers.lease import Event, JobLease, Progress, TimeLeft
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


def test_the_time_before_the_first_stage_counts_by_its_share() -> None:
    listener = Listener()
    job = reporter(listener, (START_STAGE, 0.2), ("read", 0.1), ("train", 0.7))
    listener.now = 20.0
    job.start_stage("read", 10)
    assert listener.last.progress == pytest.approx(0.2)
    assert listener.last.eta_seconds is None, "no step was reported yet"
    listener.now = 30.0
    for step in range(1, 11):
        job.report(step)
    assert listener.last.progress == pytest.approx(0.3)
    assert listener.last.eta_seconds == pytest.approx(70.0)


_estimates = st.lists(st.tuples(st.floats(0, 600), st.none() | st.floats(0, 1e6)), min_size=1, max_size=60)


@given(_estimates)
@example([(0, 100.0), (6, 94.0), (1, 97.0), (1, 99.0), (10, 500.0), (30, 470.0)])
def test_a_shown_time_left_falls_at_least_as_fast_as_time_passes(
    steps: list[tuple[float, float | None]],
) -> None:
    """Until nothing is shown in between; and what is shown is never far less than the newest estimate."""
    left, now, shown = TimeLeft(), 0.0, []
    for passed, estimate in steps:
        now += passed
        shown.append((now, left.shown(now, estimate)))
        seconds = shown[-1][1]
        if estimate is not None and seconds is not None:
            assert estimate * 0.8 - 5.0 - 1e-3 <= seconds <= estimate + 1e-3
    for (before, earlier), (after, later) in pairwise(shown):
        if earlier is not None and later is not None:
            assert later <= max(0.0, earlier - (after - before)) + 1e-3


def test_an_estimate_is_shown_once_it_settled_and_hidden_while_the_end_moves_away() -> None:
    left, ends = TimeLeft(), {2.0: 100.0, 4.0: 102.0, 7.0: 101.0, 20.0: 110.0, 21.0: 190.0, 26.0: 200.0}
    shown = [left.shown(now, end - now) for now, end in ends.items()]
    assert shown == [None, None, 93.0, 80.0, None, None]
    assert [left.shown(now, 190.0 - now) for now in (30.0, 36.0)] == [None, 154.0]
    assert left.shown(37.0, None) is None


def test_a_job_that_makes_no_headway_shows_no_time() -> None:
    left = TimeLeft()
    for now in (2.0, 4.0, 6.0, 8.0):
        left.shown(now, 60.0 - now)
    shown = [left.shown(10.0 + waited, 50.0) for waited in (0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 300.0)]
    assert shown == [50.0, 45.0, 40.0, None, None, None, None]
