"""Which rows go into a step."""

import time
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.engine.batcher import BatchLimits, next_batch, rows_in
from inference.engine.costs import Costs, CostTable

lengths_of_rows = st.lists(st.integers(2, 128), max_size=60)
all_limits = st.builds(BatchLimits, rows=st.integers(1, 40), tokens=st.integers(1, 2000))
PADDED = Costs()


def linear(fixed_s: float, token_s: float) -> Costs:
    """A step takes something fixed and something for each padded token."""
    marks = np.array([1, 2])
    return Costs(CostTable(marks, marks, fixed_s + token_s * np.outer(marks, marks)))


costs_of_steps = st.builds(linear, st.sampled_from([0.0, 0.001, 0.01]), st.sampled_from([1e-5, 1e-4]))


@given(lengths_of_rows, all_limits)
def test_the_first_row_goes_and_the_limits_hold(lengths: list[int], limits: BatchLimits) -> None:
    chosen = next_batch(lengths, limits, PADDED)
    assert chosen[:1] == list(range(len(lengths)))[:1]
    assert chosen == sorted(set(chosen))
    assert len(chosen) <= limits.rows
    if len(chosen) > 1:
        assert max(lengths[at] for at in chosen) * len(chosen) <= limits.tokens


@given(lengths_of_rows, all_limits, costs_of_steps)
def test_taking_batch_after_batch_serves_every_row_once(
    lengths: list[int], limits: BatchLimits, costs: Costs
) -> None:
    waiting = list(enumerate(lengths))
    served = []
    while waiting:
        chosen = next_batch([length for _, length in waiting], limits, costs)
        served += [waiting[at][0] for at in chosen]
        waiting = [row for at, row in enumerate(waiting) if at not in chosen]
    assert sorted(served) == list(range(len(lengths)))


@given(
    st.lists(st.integers(2, 60), min_size=1, max_size=14),
    st.builds(BatchLimits, rows=st.integers(1, 6), tokens=st.integers(60, 300)),
    costs_of_steps,
)
def test_the_batch_is_one_of_a_parting_of_least_cost(
    lengths: list[int], limits: BatchLimits, costs: Costs
) -> None:
    chosen = next_batch(lengths, limits, costs)
    taken = [lengths[at] for at in chosen]
    left = [length for at, length in enumerate(lengths) if at not in chosen]
    whole = price(taken, limits, costs) + least_cost(left, limits, costs)
    assert whole == pytest.approx(least_cost(lengths, limits, costs), abs=1e-7)


def price(lengths: Sequence[int], limits: BatchLimits, costs: Costs) -> float:
    rows, longest = len(lengths), max(lengths)
    if rows > limits.rows or (rows > 1 and rows * longest > limits.tokens):
        return float("inf")
    return float(costs.of(np.array([longest]), rows)[0, rows - 1]) + costs.parting_s


def least_cost(lengths: Sequence[int], limits: BatchLimits, costs: Costs) -> float:
    """By trying every way to cut the rows in order of length."""
    ascending = sorted(lengths)

    @lru_cache
    def of_first(count: int) -> float:
        if not count:
            return 0.0
        return min(of_first(cut) + price(ascending[cut:count], limits, costs) for cut in range(count))

    return of_first(len(ascending))


def test_dear_padding_keeps_lengths_apart_and_dear_steps_bring_them_together() -> None:
    lengths, limits = [50, 5, 49, 5, 50, 6], BatchLimits(rows=6, tokens=10_000)
    assert next_batch(lengths, limits, linear(0.001, 1e-4)) == [0, 2, 4]
    assert next_batch(lengths, limits, linear(0.100, 1e-4)) == [0, 1, 2, 3, 4, 5]


def test_rows_of_one_length_fill_a_batch_with_those_due_first() -> None:
    assert next_batch([8] * 100, BatchLimits(rows=32, tokens=256), PADDED) == list(range(32))


def test_of_a_length_that_is_taken_in_part_those_due_first_go() -> None:
    # Three and two are cheapest; three short ones would be cheaper still, but all batches would be more.
    lengths = [40, 30, 30, 30, 30]
    assert next_batch(lengths, BatchLimits(rows=3), linear(0.1, 1e-4)) == [0, 1]


def test_no_company_is_looked_for_beyond_the_window() -> None:
    limits = BatchLimits(rows=32, tokens=100_000)
    lengths = [10, *[100] * (limits.window - 1), *[10] * 50]
    assert next_batch(lengths, limits, linear(0.0, 1e-3)) == [0]


def test_a_row_longer_than_the_limit_goes_alone() -> None:
    assert next_batch([100, 8, 8], BatchLimits(rows=8, tokens=64), PADDED) == [0]
    assert next_batch([8, 100, 8], BatchLimits(rows=8, tokens=64), PADDED) == [0, 2]


def test_how_many_rows_take_twice_as_long_as_one() -> None:
    assert rows_in(2.0, 10, BatchLimits(), linear(0.01, 1e-3)) == 3
    assert rows_in(2.0, 10, BatchLimits(), linear(1.0, 1e-5)) == 32
    assert rows_in(2.0, 10, BatchLimits(tokens=50), linear(1.0, 1e-5)) == 5
    assert rows_in(2.0, 100, BatchLimits(tokens=50), linear(1.0, 1e-5)) == 1


def test_choosing_takes_little_time() -> None:
    """Under 1 ms of 256 rows where nothing else runs; here with room for a busy machine."""
    lengths = np.random.default_rng(0).integers(4, 120, 256).tolist()
    best = float("inf")
    for _ in range(20):
        begun = time.perf_counter()
        next_batch(lengths, BatchLimits(), PADDED)
        best = min(best, time.perf_counter() - begun)
    assert best < 0.004


@pytest.mark.parametrize(("rows", "tokens"), [(0, 1), (1, 0)])
def test_limits_without_room_are_refused(rows: int, tokens: int) -> None:
    with pytest.raises(ValueError, match="room"):
        BatchLimits(rows, tokens)
