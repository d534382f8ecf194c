"""What a job reports while it runs: progress, events, and the time left."""

import math
from itertools import pairwise
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from versiontree.jobs.services.transitions import LeaseLost
from versiontree.tree.selectors.past_jobs import START_STAGE
from workers.jobs.outcome import to_json
from workers.lease import Event, JobLease, Progress, TimeLeft
from workers.reporter import DatabaseReporter
from workers.training.progress import Cancelled

PLAN = (("read", 0.1), ("look up", 0.2), ("look up", 0.2), ("learn", 0.5))


class Listener:
    """Keeps what a job reports, and has a clock that the test moves."""

    lost = False
    cancel_requested = False

    def __init__(self) -> None:
        self.now = 0.0
        self.reports: list[Progress] = []
        self.events: list[Event] = []

    @property
    def last(self) -> Progress:
        """The last report."""
        return self.reports[-1]

    def update(self, report: Progress, event: Event | None = None) -> None:
        self.reports.append(report)
        if event is not None:
            self.events.append(event)


def reporter(listener: Listener, *shares: tuple[str, float]) -> DatabaseReporter:
    return DatabaseReporter(cast("JobLease", listener), shares, clock=lambda: listener.now)


def test_progress_moves_by_each_stages_share_and_never_back() -> None:
    listener = Listener()
    job = reporter(listener, *PLAN)
    for stage in ("read", "look up", "look up", "learn"):
        job.start_stage(stage, 2)
        for step in (1, 2):
            job.report(step)
    bar = [round(report.progress, 3) for report in listener.reports]
    assert bar == [0.0, 0.05, 0.1, 0.1, 0.2, 0.3, 0.3, 0.4, 0.5, 0.5, 0.75, 1.0]


def test_unplanned_stage_leaves_the_progress_alone() -> None:
    listener = Listener()
    job = reporter(listener, *PLAN)
    job.start_stage("read", 0)
    job.report(5)
    assert listener.last.progress == pytest.approx(0.1), "steps beyond the total count for nothing"
    job.start_stage("surprise", 10)
    job.report(9)
    assert listener.last.progress == pytest.approx(0.1)
    assert listener.last.stage == "surprise"


def test_metrics_become_events_now_and_then_and_at_the_end_of_a_stage() -> None:
    listener = Listener()
    job = reporter(listener, *PLAN)
    job.start_stage("read", 100)
    for step in range(1, 11):
        listener.now = step * 0.5
        job.report(step, loss=1.0 / step)
    job.start_stage("learn", 1)
    assert [event.data["step"] for event in listener.events if event.kind == "metrics"] == [1, 5, 9, 10]


def test_metrics_that_are_no_numbers_are_reported_as_none() -> None:
    listener = Listener()
    job = reporter(listener, *PLAN)
    job.start_stage("read", 1)
    job.report(1, loss=math.nan, rate=math.inf, accuracy=0.5)
    assert listener.last.metrics == {"loss": None, "rate": None, "accuracy": 0.5}


def test_figures_become_plain_json() -> None:
    figures = {"a": np.float32(0.5), "b": [np.int64(3), math.nan], 4: (True, None), "path": Path("x")}
    assert to_json(figures) == {"a": 0.5, "b": [3, None], "4": [True, None], "path": "x"}
    assert to_json(["a\x00b"]) == ["a\ufffdb"]


def test_lost_lease_is_raised_before_a_cancel() -> None:
    listener = Listener()
    job = reporter(listener, *PLAN)
    job.raise_if_cancelled()
    listener.cancel_requested = True
    with pytest.raises(Cancelled):
        job.raise_if_cancelled()
    listener.lost = True
    with pytest.raises(LeaseLost):
        job.raise_if_cancelled()


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
