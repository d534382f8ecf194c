"""The loop of a stage: budgets of steps and of minutes, held-out figures, and going on after a stop."""

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.unit.workers.training.world import CancelAt, Recorder
from workers.training.checkpoints import CheckpointStore
from workers.training.progress import Cancelled
from workers.training.training_loop import EVALUATIONS, Budget, load_finished, train_stage


class Clock:
    """Time passes only when somebody takes a step."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Counter:
    """Learns to count; a step takes three seconds."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.taken: list[int] = []
        self.progress: list[float | None] = []
        self.total = torch.zeros(1)
        self.clock = clock or Clock()

    def step(self, number: int, progress: float | None) -> dict[str, float]:
        self.taken.append(number)
        self.progress.append(progress)
        self.total += 1
        self.clock.now += 3
        return {"loss": 1.0 / (1 + number)}

    def state_dict(self) -> Mapping[str, Tensor]:
        return {"total": self.total}

    def load_state_dict(self, tensors: Mapping[str, Tensor], steps: int) -> None:
        self.total = tensors["total"]


def test_stage_takes_the_steps_of_its_budget() -> None:
    counter, recorder = Counter(), Recorder()
    train_stage("count", counter, Budget(5), recorder, CheckpointStore())
    assert counter.taken == [0, 1, 2, 3, 4]
    assert counter.progress == [None] * 5
    assert recorder.stages == [("count", 5, [1, 2, 3, 4, 5, 5])]


def test_with_minutes_it_learns_that_long_and_says_how_far_the_time_is() -> None:
    clock, recorder = Clock(), Recorder()
    counter = Counter(clock)
    train_stage("count", counter, Budget(5, minutes=0.5, clock=clock), recorder, CheckpointStore())
    assert counter.taken == list(range(10))
    assert counter.progress == pytest.approx([step / 10 for step in range(10)])
    assert recorder.stages == [("count", 30, [*range(3, 31, 3), 30])]


def test_after_a_stop_it_goes_on_with_what_is_left_of_steps_and_time(tmp_path: Path) -> None:
    clock = Clock()
    kept = CheckpointStore(tmp_path, 0.0)
    with pytest.raises(Cancelled):
        train_stage("count", Counter(clock), Budget(9, minutes=0.5, clock=clock), CancelAt(5), kept)
    again = Counter(clock)
    train_stage("count", again, Budget(9, minutes=0.5, clock=clock), Recorder(), CheckpointStore(tmp_path))
    assert again.taken == list(range(4, 10))
    assert float(again.total) == 10


def test_a_stage_that_came_to_its_end_is_not_learnt_again(tmp_path: Path) -> None:
    kept = CheckpointStore(tmp_path)
    assert load_finished(kept, "count") is None
    train_stage("count", Counter(), Budget(3), Recorder(), kept)
    assert load_finished(kept, "count") is not None
    again = Counter()
    train_stage("count", again, Budget(3), Recorder(), kept)
    assert again.taken == []
    assert float(again.total) == 3


def test_a_half_learnt_stage_is_not_finished(tmp_path: Path) -> None:
    kept = CheckpointStore(tmp_path, 0.0)
    with pytest.raises(Cancelled):
        train_stage("count", Counter(), Budget(9), CancelAt(4), kept)
    assert kept.load("count") is not None
    assert load_finished(kept, "count") is None


def test_held_out_figures_are_taken_now_and_then_whatever_the_number_of_steps() -> None:
    taken = []

    def watch() -> dict[str, float]:
        taken.append(1)
        return {"error": 0.1}

    train_stage("count", Counter(), Budget(100 * EVALUATIONS), Recorder(), CheckpointStore(), watch)
    assert EVALUATIONS <= len(taken) <= EVALUATIONS + 1
