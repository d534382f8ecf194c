"""What is told of the last half minute."""

import pytest

from inference.engine.trace import Trace
from inference.serving.recent import BATCHES_SHOWN, WINDOW_S, Recent


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_figures_are_of_the_window_alone() -> None:
    clock = Clock()
    recent = Recent(Trace(), clock)
    recent.computed(1000)
    recent.answered(9.0)
    clock.now += WINDOW_S + 1
    for seconds in range(1, 101):
        recent.answered(seconds / 1000)
    recent.computed(60)
    told = recent.told()
    assert told.rows_per_s == pytest.approx(60 / WINDOW_S)
    assert (told.requests, told.p50_ms, told.p95_ms, told.p99_ms) == (100, 51.0, 96.0, 100.0)


def test_before_anything_happened_there_is_nothing_to_tell() -> None:
    told = Recent(Trace()).told()
    assert (told.rows_per_s, told.requests, told.p99_ms, told.spans) == (0.0, 0, 0.0, ())


def test_the_picture_is_of_the_last_batches_that_were_computed() -> None:
    trace = Trace()
    for batch in range(1, 9):
        for lane in ("retrieval", "compute"):
            if (batch, lane) != (8, "compute"):
                with trace.span(lane, batch, lane):
                    pass
    spans = Recent(trace).told().spans
    assert {span.batch for span in spans} == set(range(8 - BATCHES_SHOWN, 8))
    assert spans[0].start == 0.0
