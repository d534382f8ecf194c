"""Which rows go into a step, what steps are expected to take, and when the next one is chosen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.engine.batcher import BatchLimits, StepCosts, batch_size
from inference.engine.in_flight import LayerCallback, NextBatchTiming

lengths_of_rows = st.lists(st.integers(2, 128), max_size=60)
all_limits = st.builds(BatchLimits, rows=st.integers(1, 40), tokens=st.integers(1, 2000))


@given(lengths_of_rows, all_limits)
def test_as_many_of_the_first_rows_go_as_the_limits_allow(lengths: list[int], limits: BatchLimits) -> None:
    count = batch_size(lengths, limits)
    assert min(1, len(lengths)) <= count <= limits.rows
    if count > 1:
        assert sum(lengths[:count]) <= limits.tokens
    if count < min(len(lengths), limits.rows):
        assert sum(lengths[: count + 1]) > limits.tokens


def test_rows_in_a_time_are_limited_by_costs_and_batch_limits() -> None:
    assert StepCosts(0.01, 1e-3).rows_in(2.0, 10, BatchLimits()) == 3
    assert StepCosts(1.0, 1e-5).rows_in(2.0, 10, BatchLimits()) == 32
    assert StepCosts(1.0, 1e-5).rows_in(2.0, 10, BatchLimits(tokens=50)) == 5
    assert StepCosts(1.0, 1e-5).rows_in(2.0, 100, BatchLimits(tokens=50)) == 1


def test_costs_of_steps_are_learnt_from_steps_of_different_sizes() -> None:
    costs = StepCosts()
    for step in range(300):
        tokens = 20 + 37 * step % 2000
        costs.learn(tokens, 0.004 + 3e-5 * tokens)
    assert costs.of(1000) == pytest.approx(0.034, rel=0.05)
    assert costs.of(50) == pytest.approx(0.0055, rel=0.2)


def test_equal_steps_are_estimated_by_their_tokens_alone() -> None:
    costs = StepCosts()
    for _ in range(100):
        costs.learn(64, 0.032)
    assert costs.of(64) == pytest.approx(0.032)
    assert costs.of(128) == pytest.approx(0.064, rel=0.05)


def test_outlier_step_changes_the_costs_little() -> None:
    costs = StepCosts()
    for _ in range(100):
        costs.learn(64, 0.032)
    costs.learn(64, 60.0)
    assert costs.of(64) < 0.04


@given(st.lists(st.tuples(st.integers(1, 5000), st.floats(0, 10)), min_size=1, max_size=30))
def test_more_tokens_are_never_expected_to_take_less(steps: list[tuple[int, float]]) -> None:
    costs = StepCosts()
    for tokens, seconds in steps:
        costs.learn(tokens, seconds)
    assert 0 <= costs.of(1) <= costs.of(100) <= costs.of(10_000)


@pytest.mark.parametrize(("rows", "tokens"), [(0, 1), (1, 0)])
def test_limits_without_room_are_refused(rows: int, tokens: int) -> None:
    with pytest.raises(ValueError, match="room"):
        BatchLimits(rows, tokens)


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
def test_next_batch_is_chosen_before_one_of_the_layers(layers: int, steps: list[tuple[float, float]]) -> None:
    timing = NextBatchTiming(layers)
    for ahead, computing in steps:
        timing.learn(ahead_s=ahead, computing_s=computing)
        assert timing.layer in range(layers)


def test_layer_callback_is_called_once_before_its_layer() -> None:
    done: list[int] = []
    callback = LayerCallback(2, lambda: done.append(2))
    for layer in range(4):
        callback.before(layer)
        done.append(layer)
    assert done == [0, 1, 2, 2, 3]
    assert callback.seconds > 0
