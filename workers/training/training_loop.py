"""The loop of every stage that learns: budget, progress, cancel, and going on after a kill."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from workers.training.checkpoints import Checkpoints, Saved
from workers.training.multi_gpu import Processes
from workers.training.progress import Reporter

# Held-out measurements while a stage learns, so that people see the error fall.
WATCHED = 12


class Learner(Protocol):
    """What takes the steps."""

    def step(self, number: int, progress: float | None) -> dict[str, float]:
        """Take step `number` (from 0) and tell its figures. progress: see `Budget.progress`."""

    def tensors(self) -> Mapping[str, Tensor]:
        """All that changes from step to step."""

    def restore(self, tensors: Mapping[str, Tensor], done: int) -> None:
        """Be as it was when `tensors` were taken, after `done` steps."""


@dataclass
class Budget:
    """How long a stage learns: its `steps`, or, where `minutes` are given, that long whatever the steps.

    With minutes the result depends on the machine; the learning rate then follows the time.
    """

    steps: int
    minutes: float | None = None
    clock: Callable[[], float] = time.monotonic
    _spent: float = 0.0
    _started: float = field(init=False)

    def __post_init__(self) -> None:
        self._started = self.clock()

    def begin(self, spent: float = 0.0) -> None:
        """Start counting, `spent` seconds having been used before a restart."""
        self._spent, self._started = spent, self.clock()

    @property
    def spent(self) -> float:
        """Seconds used."""
        return self._spent + self.clock() - self._started

    @property
    def total(self) -> int:
        """What progress is told out of: steps, or seconds."""
        return self.steps if self.minutes is None else max(1, round(60 * self.minutes))

    def told(self, done: int) -> int:
        """How far it has come after `done` steps, of `total`."""
        return done if self.minutes is None else min(self.total, int(self.spent))

    def progress(self) -> float | None:
        """The share of the minutes that is used; None where steps are counted."""
        if self.minutes is None:
            return None
        return min(1.0, Processes().first(self.spent / (60 * self.minutes)))

    def over(self, done: int, progress: float | None) -> bool:
        """Whether it is used up, `progress` of its minutes being so."""
        return self.steps <= done if progress is None else progress >= 1


def learn(
    stage: str,
    learner: Learner,
    budget: Budget,
    reporter: Reporter,
    checkpoints: Checkpoints,
    watch: Callable[[], dict[str, float]] | None = None,
) -> None:
    """Take steps until the budget is over, from where the stage's checkpoint stands.

    watch: a few held-out figures, told now and then. The last state is kept, so that a job killed in a later
    stage does not learn this one again.
    """
    saved = checkpoints.load(stage)
    done = 0
    if saved is not None:
        learner.restore(saved.tensors, saved.step)
        done = saved.step
    budget.begin(float(saved.state["seconds"]) if saved is not None else 0.0)
    reporter.stage(stage, budget.total)
    watched, first = -1, Processes().number == 0
    while not budget.over(done, progress := budget.progress()):
        reporter.check()
        figures = learner.step(done, progress)
        done += 1
        part = budget.told(done) * WATCHED // budget.total
        if watch is not None and first and part != watched:
            watched = part
            figures |= watch()
        reporter.advance(budget.told(done), **figures)
        if checkpoints.due():
            checkpoints.save(stage, done, learner.tensors(), {"seconds": budget.spent, "over": False})
    checkpoints.save(stage, done, learner.tensors(), {"seconds": budget.spent, "over": True})
    reporter.advance(budget.total)


def finished(checkpoints: Checkpoints, stage: str) -> Saved | None:
    """The last state of a stage that came to its end."""
    saved = checkpoints.load(stage)
    return saved if saved is not None and saved.state.get("over") else None
