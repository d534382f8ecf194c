"""Steps: memory that runs out, numbers that run away, and going on where one stopped."""

import weakref

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import Parameter

from inference.errors import HplmError
from workers.training import optimizer
from workers.training.gradient_accumulation import initial_accumulation_steps, set_accumulation_steps
from workers.training.optimizer import Optimizer, SparseAdamW

TARGETS = [1.0, -2.0, 3.0, 0.5, 4.0]


class Line:
    """A parameter that should become the mean of some targets; memory holds only so many of them at once."""

    def __init__(self, room: int = 100, steps: int = 20) -> None:
        self.weight = Parameter(torch.zeros(3))
        self.room, self.sizes = room, list[int]()
        self.optimizer = Optimizer([{"params": [self.weight], "lr": 0.1}], steps=steps, warmup=2)

    def loss(self, part: list[float]) -> Tensor:
        if len(part) > self.room:
            # More than any machine has: the real error of the real allocator.
            torch.empty(1 << 46, dtype=torch.float64)
        self.sizes.append(len(part))
        return (self.weight - torch.tensor(part)[:, None]).square().mean()

    def total(self, _: list[float]) -> Tensor:
        return self.weight.sum()

    def train_step(self, targets: list[float] = TARGETS) -> float:
        return self.optimizer.train_step(targets, self.loss, weight_of=lambda _: 1.0)


def test_step_without_memory_is_accumulated_with_the_same_result() -> None:
    whole, parts = Line(), Line(room=2)
    for _ in range(5):
        assert parts.train_step() == pytest.approx(whole.train_step(), rel=1e-6)
    assert torch.allclose(whole.weight, parts.weight, atol=1e-6)


def test_parts_stay_small_so_that_memory_runs_out_once() -> None:
    line = Line(room=2)
    line.train_step()
    line.sizes.clear()
    line.train_step()
    assert max(line.sizes) == 2
    assert sum(line.sizes) == len(TARGETS)


def test_nothing_of_a_failed_attempt_is_alive_when_the_next_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither when the device's cache is emptied: memory in use would stay."""
    line, made, alive = Line(room=1), list[weakref.ref[Tensor]](), list[int]()

    def count_alive(**_: bool) -> None:
        alive.append(sum(found() is not None for found in made))
        assert line.weight.grad is None

    def loss(part: list[float]) -> Tensor:
        if len(part) > line.room:
            count_alive()
        states = torch.tensor(part)[:, None] * line.weight
        made.append(weakref.ref(states))
        return line.loss(part) + 0 * states.sum()

    monkeypatch.setattr(optimizer, "clear_device_cache", count_alive)
    line.optimizer.train_step(TARGETS, loss, weight_of=lambda _: 1.0)
    # Attempts with 1, 2 and 4 parts, each followed by an emptied cache.
    assert alive == [0] * 6
    assert line.sizes == [1] * len(TARGETS)


def test_after_a_lack_of_memory_that_killed_the_process_it_begins_with_half_the_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GRADIENT_ACCUMULATION_STEPS", "1")
    whole = Line()
    set_accumulation_steps(2)
    halved = Line()
    assert initial_accumulation_steps() == 2
    assert halved.train_step() == pytest.approx(whole.train_step(), rel=1e-6)
    assert (whole.sizes, halved.sizes) == ([5], [3, 2])


def test_a_sum_of_means_over_different_things_is_the_same_in_parts() -> None:
    """Items of some numbers each: one mean is over the numbers, the other over the items."""
    items = [[1.0, -2.0, 3.0], [0.5], [4.0, 4.0], [-1.0, 2.0, 0.0, 6.0], [3.0]]

    def learnt(room: int) -> tuple[float, Tensor]:
        line = Line(room)

        def losses(part: list[list[float]]) -> tuple[Tensor, Tensor]:
            of_items = 3 * line.loss([item[0] for item in part])
            numbers = torch.tensor([number for item in part for number in item])
            return (line.weight - numbers[:, None]).abs().mean(), of_items

        for _ in range(5):
            value = line.optimizer.train_step(items, losses, weight_of=(len, lambda _: 1.0))
        return value, line.weight.detach()

    (whole, weight), (parts, same) = learnt(room=100), learnt(room=2)
    assert parts == pytest.approx(whole, rel=1e-6)
    assert torch.allclose(weight, same, atol=1e-6)


def test_single_text_without_memory_is_out_of_memory() -> None:
    with pytest.raises(HplmError) as caught:
        Line(room=0).train_step()
    assert caught.value.code == "out_of_memory"
    assert "memory" in str(caught.value.__cause__)


def test_other_errors_are_not_taken_for_a_lack_of_memory() -> None:
    line = Line()
    with pytest.raises(RuntimeError, match="shape"):
        line.optimizer.train_step([1.0], lambda _: torch.zeros(2).reshape(3), weight_of=lambda _: 1.0)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_stops_the_training(wrong: float) -> None:
    line = Line()
    before = line.weight.detach().clone()
    with pytest.raises(HplmError) as caught:
        line.train_step([wrong])
    assert caught.value.code == "training_diverged"
    assert torch.equal(line.weight, before)


def test_a_gradient_that_is_no_number_stops_the_training() -> None:
    weight = Parameter(torch.zeros(2))
    optimizer = Optimizer([{"params": [weight], "lr": 0.1}], steps=3, warmup=0)
    with pytest.raises(HplmError) as caught:
        optimizer.train_step([1.0], lambda _: weight.sqrt().sum(), weight_of=lambda _: 1.0)
    assert caught.value.code == "training_diverged"


def test_resumed_optimizer_continues_identically() -> None:
    straight, first = Line(), Line()
    for _ in range(6):
        straight.train_step()
    for _ in range(3):
        first.train_step()
    second = Line()
    second.weight.data.copy_(first.weight.data)
    second.optimizer.load_state_dict({n: t.clone() for n, t in first.optimizer.state_dict().items()}, 3)
    for _ in range(3):
        second.train_step()
    assert torch.equal(second.weight, straight.weight)


def test_with_a_budget_of_time_the_rate_falls_with_the_time() -> None:
    moved = []
    for progress in (0.1, 0.9):
        line = Line(steps=1000)
        for _ in range(3):
            before = line.weight.detach().clone()
            line.optimizer.train_step([1.0], line.total, weight_of=lambda _: 1.0, progress=progress)
        moved.append(float((line.weight.detach() - before).abs().sum()))
    assert moved[1] == pytest.approx(moved[0] / 9, rel=1e-3)


def test_rows_that_a_batch_touches_learn_as_with_adamw_and_others_stay() -> None:
    table = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    rows, dense = SparseAdamW(table, 0.05), Parameter(table[:3].clone())
    adamw = torch.optim.AdamW([dense], lr=0.05, weight_decay=0.01)
    others = table[3:].clone()
    for number in range(1, 5):
        rows.select(np.array([[0, 2, 6], [1, 1, 0]]))
        for weight in (rows.rows, dense):
            weight.grad = None
            (weight[[0, 2, 1, 0]] - 1).square().sum().backward()  # type: ignore[no-untyped-call]
        rows.step(1.0, number, 0.01)
        adamw.step()
    assert torch.allclose(table[:3], dense, atol=1e-5)
    assert torch.equal(table[3:], others)


def test_missing_id_selects_no_row() -> None:
    rows = SparseAdamW(torch.zeros(6, 3), 0.05)
    fragments = np.array([[6, 4, 2], [6, 2, 6]])
    rows.select(fragments)
    assert rows.row_numbers(fragments).tolist() == [[6, 1, 0], [6, 0, 6]]
    assert rows.rows.shape == (2, 3)
