"""When, while a batch computes, the next one is chosen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.engine.batch_timing import LayerCallback, NextBatchTiming

SECONDS = st.floats(0.0, 10.0)


def test_next_batch_is_chosen_at_once_before_anything_is_known() -> None:
    assert NextBatchTiming(6).layer == 0


@pytest.mark.parametrize(("ahead_s", "layer"), [(0.001, 5), (0.03, 3), (0.2, 0)])
def test_next_batch_is_chosen_so_early_that_half_as_much_time_again_is_left(
    ahead_s: float, layer: int
) -> None:
    timing = NextBatchTiming(6)
    timing.learn(ahead_s=ahead_s, computing_s=0.1)
    assert timing.layer == layer


def test_one_slow_file_is_soon_forgotten() -> None:
    lead = NextBatchTiming(6)
    lead.learn(ahead_s=0.5, computing_s=0.1)
    for _ in range(60):
        lead.learn(ahead_s=0.001, computing_s=0.1)
    assert lead.layer == 5


@given(layers=st.integers(1, 48), steps=st.lists(st.tuples(SECONDS, SECONDS), max_size=20))
def test_it_is_always_one_of_the_layers(layers: int, steps: list[tuple[float, float]]) -> None:
    lead = NextBatchTiming(layers)
    for ahead, computing in steps:
        lead.learn(ahead_s=ahead, computing_s=computing)
    assert lead.layer in range(layers)


def test_something_else_is_done_once_before_its_layer() -> None:
    done: list[int] = []
    aside = LayerCallback(2, lambda: done.append(2))
    for layer in range(4):
        aside.before(layer)
        done.append(layer)
    assert done == [0, 1, 2, 2, 3]
    assert aside.seconds > 0
