"""What batches cost: measured within a budget, never less for more, and corrected by real steps."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.engine.batcher import BatchLimits, next_batch
from inference.engine.costs import Costs, CostTable, profile

Price = Callable[[int, int], float]


class Machine:
    """Runs batches at a price, by a clock of its own."""

    def __init__(self, price: Price) -> None:
        self.now = 0.0
        self.ran: list[tuple[int, int]] = []
        self._price = price

    def run(self, rows: int, tokens: int) -> None:
        self.ran.append((rows, tokens))
        self.now += self._price(rows, tokens)

    def profile(
        self, budget_s: float = 1e9, limits: BatchLimits | None = None, longest: int = 128
    ) -> CostTable:
        return profile(
            self.run,
            limits=limits or BatchLimits(),
            longest=longest,
            budget_s=budget_s,
            clock=lambda: self.now,
        )


def linear(rows: int, tokens: int) -> float:
    return 0.002 + 1e-5 * rows * tokens


def test_what_was_measured_is_told_and_between_it_is_linear() -> None:
    grid = Machine(linear).profile().grid(32, 128)
    for rows, tokens in [(1, 8), (4, 64), (32, 128), (3, 11), (20, 100)]:
        assert grid[tokens, rows - 1] == pytest.approx(linear(rows, tokens))


def test_beyond_what_was_measured_it_goes_on() -> None:
    grid = Machine(linear).profile().grid(64, 256)
    assert grid[256, 63] == pytest.approx(linear(64, 256))


def test_shapes_above_the_limits_are_not_run() -> None:
    machine = Machine(linear)
    machine.profile(limits=BatchLimits(rows=8, tokens=256))
    assert max(rows * tokens for rows, tokens in machine.ran) == 256
    assert max(rows for rows, _ in machine.ran) == 8


@pytest.mark.parametrize("token_s", [1e-5, 1e-3, 0.1])
def test_a_slow_machine_is_measured_no_longer_than_twice_the_budget(token_s: float) -> None:
    machine = Machine(lambda rows, tokens: token_s * rows * tokens)
    table = machine.profile(budget_s=1.0)
    assert machine.now < 2.0 + 2 * 8 * token_s
    assert table.grid(32, 128)[128, 31] == pytest.approx(token_s * 32 * 128, rel=0.01)


def test_a_shape_that_would_take_longer_than_the_budget_is_never_run() -> None:
    """Though there is time left: four times 64 rows are four times as long."""
    machine = Machine(lambda rows, tokens: 0.1 if rows == 64 else 0.4 if rows > 64 else 0.0)
    machine.profile(budget_s=0.35, limits=BatchLimits(rows=256), longest=8)
    assert max(rows for rows, _ in machine.ran) == 64


def test_no_shape_is_repeated_once_the_budget_is_spent() -> None:
    machine = Machine(lambda rows, tokens: 0.6)
    machine.profile(budget_s=1.0)
    assert machine.now <= 0.6 + 1.0 + 0.6


def test_the_first_run_of_all_is_not_counted() -> None:
    """It pays for what is set up once, which may take longer than all the rest."""
    machine = Machine(lambda rows, tokens: linear(rows, tokens) + (5.0 if len(machine.ran) == 1 else 0.0))
    grid = machine.profile(budget_s=1.0).grid(32, 128)
    assert grid[16, 3] == pytest.approx(linear(4, 16))


@pytest.mark.parametrize("disturbed", [0, 1, 2])
def test_one_disturbed_run_of_a_shape_says_nothing(disturbed: int) -> None:
    """Of the longest shapes of each number of rows, which no longer ones put right."""
    limits = BatchLimits(rows=1)
    machine = Machine(
        lambda rows, tokens: (
            linear(rows, tokens)
            + (1.0 if tokens == 128 and machine.ran.count((rows, tokens)) == 1 + disturbed else 0.0)
        )
    )
    assert machine.profile(limits=limits).grid(1, 128)[128, 0] == pytest.approx(linear(1, 128))


def test_one_disturbed_shape_is_put_right_by_larger_ones() -> None:
    machine = Machine(lambda rows, tokens: 0.4 if (rows, tokens) == (1, 8) else linear(rows, tokens))
    table = machine.profile(budget_s=2.0)
    assert table.grid(32, 128)[8, 0] == pytest.approx(linear(1, 16))


@given(st.integers(1, 40), st.integers(1, 200), st.integers(0, 1 << 32))
def test_more_never_costs_less(rows: int, longest: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    machine = Machine(lambda rows, tokens: float(draw.exponential(linear(rows, tokens))))
    grid = machine.profile(limits=BatchLimits(rows=rows), longest=longest).grid(rows + 10, longest + 50)
    assert grid.min() >= 0
    assert (np.diff(grid, axis=0) >= -1e-12).all()
    assert (np.diff(grid, axis=1) >= -1e-12).all()


def test_a_steps_own_costs_are_learnt() -> None:
    costs = Costs(Machine(linear).profile())
    draw = np.random.default_rng(0)
    for _ in range(300):
        rows, tokens = int(draw.integers(1, 33)), int(draw.integers(8, 128))
        costs.learn(rows, tokens, 0.005 + 3 * linear(rows, tokens))
    for rows, tokens in [(1, 8), (8, 32), (32, 128)]:
        found = costs.of(np.array([tokens]), rows)[0, rows - 1]
        assert found == pytest.approx(0.005 + 3 * linear(rows, tokens), rel=0.05)


def test_batches_that_are_all_alike_teach_what_is_fixed() -> None:
    costs = Costs(Machine(linear).profile())
    for _ in range(300):
        costs.learn(8, 32, linear(8, 32) + 0.010)
    assert costs.of(np.array([32]), 8)[0, 7] == pytest.approx(linear(8, 32) + 0.010)
    assert costs.scale == pytest.approx(1.0)


def test_what_was_learnt_long_ago_is_forgotten() -> None:
    costs = Costs(Machine(linear).profile())
    for times in (1.0, 3.0):
        for _ in range(500):
            costs.learn(8, 32, times * linear(8, 32))
    assert costs.of(np.array([32]), 8)[0, 7] == pytest.approx(3 * linear(8, 32), rel=0.01)


@given(st.lists(st.tuples(st.integers(1, 32), st.integers(8, 128), st.floats(1e-5, 1.0)), max_size=30))
def test_whatever_steps_teach_more_never_costs_less(
    steps: list[tuple[int, int, float]],
) -> None:
    costs = Costs(Machine(linear).profile())
    for rows, tokens, seconds in steps:
        costs.learn(rows, tokens, seconds)
    grid = costs.of(np.arange(1, 129), 32)
    assert grid.min() >= 0
    assert (np.diff(grid, axis=0) >= -1e-12).all()
    assert (np.diff(grid, axis=1) >= -1e-12).all()
    assert costs.parting_s >= 0


def test_large_batches_that_cost_more_than_in_proportion_do_not_make_all_dearer() -> None:
    costs = Costs(Machine(lambda rows, tokens: 1e-5 * rows * tokens).profile())
    took = {(8, 32): 2e-3, (32, 128): 0.2}
    for shape in [*took] * 200:
        costs.learn(*shape, took[shape])
    told = sum(float(costs.of(np.array([tokens]), rows)[0, rows - 1]) for rows, tokens in took)
    assert told == pytest.approx(sum(took.values()), rel=0.02)


def test_rows_are_parted_for_no_saving_at_all_where_a_step_itself_is_dear() -> None:
    costs = Costs(Machine(linear).profile())
    assert costs.parting_s > 0
    for _ in range(300):
        costs.learn(8, 32, linear(8, 32) + 0.010)
    assert costs.parting_s == 0


def test_one_step_that_waited_changes_little() -> None:
    costs = Costs(Machine(linear).profile())
    for _ in range(100):
        costs.learn(8, 32, linear(8, 32))
    costs.learn(8, 32, 60.0)
    assert costs.of(np.array([32]), 8)[0, 7] < 1.2 * linear(8, 32)


def test_without_a_table_padding_costs_and_so_does_a_step() -> None:
    costs = Costs()
    before = costs.of(np.array([10]), 2)
    costs.learn(1, 10, 5.0)
    assert (costs.of(np.array([10]), 2) == before).all()
    one, two, longer = (costs.of(np.array([n]), 2)[0] for n in (10, 10, 20))
    assert two[1] < 2 * one[0]
    assert longer[0] > one[0]
    assert (one[1] - one[0]) == pytest.approx(longer[0] - one[0])


def test_a_disturbance_does_not_make_a_large_batch_dearer_than_small_ones() -> None:
    table = Machine(lambda rows, tokens: rows * tokens * (5e-5 if rows == 16 else 1e-6)).profile()
    grid = table.grid(32, 128)
    assert grid[128, 15] <= 16 * grid[128, 0] * (1 + 1e-9)


def test_steps_of_single_rows_never_teach_that_company_is_of_no_use() -> None:
    costs = Costs(Machine(lambda rows, tokens: 1e-5 * rows * tokens).profile())
    for length in (20, 60, 100) * 50:
        costs.learn(1, length, 3e-5 * length)
    lengths = [60, 61, 62, 58, 59, 63]
    assert len(next_batch(lengths, BatchLimits(), costs)) == len(lengths)
