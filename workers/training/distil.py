"""Teach the local lower half to give what the original lower half gives with full context."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from inference.hplm import fragments
from inference.hplm.local_lower import LocalLower
from inference.hplm.root_config import RootConfig
from workers.training.corpus import Ids
from workers.training.optimise import Optimiser
from workers.training.precision import Arithmetic
from workers.training.progress import Reporter
from workers.training.sequences import Batch, make_batch
from workers.training.states import Teacher, fall_back_at_random, local_states
from workers.training.unexplained import Spread

# Shares of the complete tri-grams of a batch that are read at each fall-back level, as the table's gaps
# will have it.
FALL_BACK = {
    fragments.LEVEL_RIGHT: 0.0625,
    fragments.LEVEL_LEFT: 0.0625,
    fragments.LEVEL_UNI: 0.125,
}
WARMUP_STEPS = 40


@dataclass(frozen=True)
class Variances:
    """Per token, of the teacher's states at the cut and at the last layer: what errors are divided by."""

    cut: float
    last: float


@torch.no_grad()
def variances(
    teacher: Teacher, groups: Sequence[list[Ids]], config: RootConfig, reporter: Reporter
) -> Variances:
    """Measure them on a few batches."""
    cut, last = Spread(), Spread()
    for sequences in groups:
        reporter.check()
        batch = make_batch(sequences, config)
        states = teacher.at_cut(batch)
        mask = batch.mask.to(states.device)
        cut.add(states[mask])
        last.add(teacher.upper_states(states, batch)[mask])
    return Variances(cut.variance, last.variance)


def squared_error(states: Tensor, target: Tensor, batch: Batch, variance: float) -> Tensor:
    """Mean squared error per token over the variance: 0 is perfect, 1 is as good as the mean state."""
    mask = batch.mask.to(states.device)
    return (states - target)[mask].square().sum(-1).mean() / variance


@dataclass(frozen=True)
class Distillation:
    """Trains `local` in place."""

    local: LocalLower
    teacher: Teacher
    config: RootConfig
    arithmetic: Arithmetic
    scale: Variances
    learning_rate: float
    position_learning_rate: float
    seed: int

    def run(self, groups: Sequence[list[Ids]], reporter: Reporter) -> None:
        """One step per batch."""
        reporter.stage("distil", len(groups))
        rng = np.random.default_rng(self.seed)
        position = self.local.position_bias
        others = [p for p in self.local.parameters() if p is not position]
        optimiser = Optimiser(
            [
                {"params": others, "lr": self.learning_rate},
                {"params": [position], "lr": self.position_learning_rate},
            ],
            steps=len(groups),
            warmup=WARMUP_STEPS,
        )
        for done, sequences in enumerate(groups, start=1):
            reporter.check()
            loss = optimiser.step(self._loss(sequences, rng))
            reporter.advance(done, loss=loss)

    def _loss(self, sequences: list[Ids], rng: np.random.Generator) -> Tensor:
        batch = make_batch(sequences, self.config)
        cut = self.teacher.at_cut(batch)
        with torch.no_grad():
            last = self.teacher.upper_states(cut, batch)
        degraded = fall_back_at_random(batch.unique, self.config.missing_id, rng, FALL_BACK)
        states = local_states(self.local, batch, self.arithmetic, degraded)
        at_last = self.teacher.upper_states(states, batch)
        return squared_error(states, cut, batch, self.scale.cut) + squared_error(
            at_last, last, batch, self.scale.last
        )
