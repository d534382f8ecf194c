"""The loop of every training stage: budget, progress, cancellation, and resuming from a checkpoint."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from workers.training.checkpoints import Checkpoint, CheckpointStore
from workers.training.multi_gpu import ProcessGroup
from workers.training.progress import Reporter

# Evaluations on held-out text during a stage, so that people see the error fall.
EVALUATIONS = 12


class Trainable(Protocol):
    """What `train_stage` trains."""

    def step(self, number: int, progress: float | None) -> dict[str, float]:
        """Take step `number` (from 0) and return its metrics. progress: see `Budget.progress`."""

    def state_dict(self) -> Mapping[str, Tensor]:
        """All tensors that change from step to step."""

    def load_state_dict(self, tensors: Mapping[str, Tensor], steps: int) -> None:
        """Restore the state after `steps` steps."""


@dataclass
class Budget:
    """How long a stage trains: `steps`, or `minutes` where they are given.

    With minutes the result depends on the machine; the learning rate then follows the time.
    """

    steps: int
    minutes: float | None = None
    clock: Callable[[], float] = time.monotonic
    _spent: float = 0.0
    _started: float = field(init=False)

    def __post_init__(self) -> None:
        self._started = self.clock()

    def start(self, spent: float = 0.0) -> None:
        """Start the clock. spent: seconds used before a restart."""
        self._spent, self._started = spent, self.clock()

    @property
    def spent(self) -> float:
        """Seconds used."""
        return self._spent + self.clock() - self._started

    @property
    def total(self) -> int:
        """The total for progress reports: steps, or seconds."""
        return self.steps if self.minutes is None else max(1, round(60 * self.minutes))

    def completed(self, steps: int) -> int:
        """How much of `total` is done after `steps` steps."""
        return steps if self.minutes is None else min(self.total, int(self.spent))

    def progress(self) -> float | None:
        """The share of the minutes that is used; None where steps are counted."""
        if self.minutes is None:
            return None
        return min(1.0, ProcessGroup().broadcast(self.spent / (60 * self.minutes)))

    def is_exhausted(self, steps: int, progress: float | None) -> bool:
        """Whether training ends after `steps` steps with this `progress`."""
        return self.steps <= steps if progress is None else progress >= 1


def train_stage(
    stage: str,
    model: Trainable,
    budget: Budget,
    reporter: Reporter,
    checkpoints: CheckpointStore,
    evaluate: Callable[[], dict[str, float]] | None = None,
) -> None:
    """Train until the budget is used up, from the stage's checkpoint if there is one.

    evaluate: returns held-out metrics, reported now and then. The final state is saved, so that a job killed
    in a later stage does not repeat this one.
    """
    checkpoint = checkpoints.load(stage)
    steps, spent = 0, 0.0
    if checkpoint is not None:
        model.load_state_dict(checkpoint.tensors, checkpoint.step)
        steps, spent = checkpoint.step, float(checkpoint.state["seconds"])
    budget.start(spent)
    reporter.start_stage(stage, budget.total)
    last_part, is_main = -1, ProcessGroup().rank == 0
    while not budget.is_exhausted(steps, progress := budget.progress()):
        reporter.raise_if_cancelled()
        metrics = model.step(steps, progress)
        steps += 1
        part = budget.completed(steps) * EVALUATIONS // budget.total
        if evaluate is not None and is_main and part != last_part:
            last_part = part
            metrics |= evaluate()
        reporter.report(budget.completed(steps), **metrics)
        if checkpoints.is_due():
            checkpoints.save(stage, steps, model.state_dict(), {"seconds": budget.spent, "finished": False})
    checkpoints.save(stage, steps, model.state_dict(), {"seconds": budget.spent, "finished": True})
    reporter.report(budget.total)


def load_finished(checkpoints: CheckpointStore, stage: str) -> Checkpoint | None:
    """The final checkpoint of a stage that finished."""
    checkpoint = checkpoints.load(stage)
    return checkpoint if checkpoint is not None and checkpoint.state.get("finished") else None
