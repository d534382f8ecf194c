"""The rates of the last half minute."""

import pytest

from inference.engine.trace import Trace
from inference.serving.recent import BATCHES_SHOWN, KEPT, WINDOW_S, Recent, RecentGeneration
from tests.unit.fake_clock import FakeClock


def test_figures_are_of_the_window_alone() -> None:
    clock = FakeClock(100.0)
    recent = Recent(Trace(), clock)
    recent.computed(1000)
    recent.answered(9.0)
    clock.now += WINDOW_S + 1
    for seconds in range(1, 101):
        recent.answered(seconds / 1000)
    recent.computed(60)
    rates = recent.rates()
    assert rates.rows_per_s == pytest.approx(60 / WINDOW_S)
    assert (rates.requests, rates.p50_ms, rates.p95_ms, rates.p99_ms) == (100, 51.0, 96.0, 100.0)


def test_many_small_batches_do_not_look_like_few_rows() -> None:
    """More in half a minute than are kept: the rate is that of those that are."""
    clock = FakeClock(100.0)
    recent = Recent(Trace(), clock)
    for _ in range(2 * KEPT):
        clock.now += WINDOW_S / (2 * KEPT)
        recent.computed(3)
    assert recent.rates().rows_per_s == pytest.approx(3 * 2 * KEPT / WINDOW_S, rel=0.01)


def test_the_picture_is_of_the_last_batches_that_were_computed() -> None:
    trace = Trace()
    for batch in range(1, 9):
        for stage in ("retrieval", "compute"):
            if (batch, stage) != (8, "compute"):
                with trace.span(stage, batch, stage):
                    pass
    spans = Recent(trace).rates().spans
    assert {span.batch for span in spans} == set(range(8 - BATCHES_SHOWN, 8))
    assert spans[0].start == 0.0


def test_how_fast_requests_are_answered_is_of_the_time_when_others_waited() -> None:
    clock = FakeClock(100.0)
    recent = Recent(Trace(), clock)
    recent.behind(1000, 9000, 2.0)
    clock.now += WINDOW_S + 1
    recent.behind(3, 60, 0.6)
    assert recent.rates().behind_per_s == 0.0  # of less than a second nothing is known
    recent.behind(5, 340, 1.0)
    assert recent.rates().behind_per_s == pytest.approx(5.0)
    assert recent.rates().behind_tokens_per_s == pytest.approx(250.0)


def test_generation_counts_tokens_and_first_tokens_of_the_window_alone() -> None:
    clock = FakeClock(100.0)
    recent = RecentGeneration(clock)
    recent.generated(9_000)
    recent.began(9.0)
    recent.ended()
    clock.now += WINDOW_S + 1
    for _ in range(3):
        recent.generated(200)
        recent.began(0.25)
    recent.ended()
    rates = recent.rates()
    assert (rates.completions, rates.first_token_p50_ms, rates.first_token_p95_ms) == (1, 250.0, 250.0)
    assert rates.tokens_per_s == pytest.approx(600 / WINDOW_S)
