"""Teach the local lower half to give what the original lower half gives with full context."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from inference.hplm import fragments
from inference.hplm.local_lower import LocalLower
from inference.hplm.root_config import RootConfig
from workers.training.checkpoints import draws
from workers.training.corpus import Ids
from workers.training.hidden_states import WORDS, Teacher, local_states
from workers.training.optimizer import Optimiser, WordRows
from workers.training.progress import Reporter
from workers.training.sequences import Batch, Framed, make_batch
from workers.training.simulated_misses import Patterns
from workers.training.training_texts import Course
from workers.training.unexplained_variance import Spread

STAGE = 2
WARMUP_STEPS = 40


@dataclass(frozen=True)
class Variances:
    """Per token, of the teacher's states at the cut and at the last layer: what errors are divided by."""

    cut: float
    last: float


@torch.no_grad()
def variances(
    teacher: Teacher, groups: Sequence[list[Framed]], config: RootConfig, reporter: Reporter
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


@dataclass(frozen=True, eq=False)
class Lesson:
    """A sequence, and what is read in place of its fragments, [T, n]."""

    framed: Framed
    read: Ids

    def __len__(self) -> int:
        return len(self.framed)


def read_batch(lessons: Sequence[Lesson], config: RootConfig) -> Batch:
    """The batch of these sequences as they are read."""
    batch = make_batch([lesson.framed for lesson in lessons], config)
    return batch.reading(np.concatenate([lesson.read for lesson in lessons]))


def lessons_of(
    sequences: Sequence[Framed], patterns: Patterns, config: RootConfig, rng: np.random.Generator
) -> list[Lesson]:
    """Draw how each sequence is read."""
    return [
        Lesson(
            one,
            patterns.draw(fragments.extract(one.ids, config.missing_id, config.n), rng, config.missing_id),
        )
        for one in sequences
    ]


@dataclass(frozen=True)
class DistilRates:
    """learning_rate: of layers, words, maps and context; position: of the biases of positions and types.

    last_weight: of the error after the last layer beside that at the cut, in a share `last_share` of the
    steps (it takes a third of a step's time and pulls against the error at the cut).
    """

    learning_rate: float
    position: float
    last_weight: float
    last_share: float


class Distillation:
    """Trains `local` in place; the steps are `learn`'s to count."""

    def __init__(
        self,
        local: LocalLower,
        teacher: Teacher,
        config: RootConfig,
        scale: Variances,
        patterns: Patterns,
        course: Course,
        rates: DistilRates,
    ) -> None:
        self._local, self._teacher, self._config = local, teacher, config
        self._scale, self._patterns, self._course, self._rates = scale, patterns, course, rates
        self._words, self._optimiser = local_optimiser(
            local,
            steps=len(course),
            warmup=WARMUP_STEPS,
            learning_rate=rates.learning_rate,
            composition_rate=rates.position,
        )

    def step(self, number: int, progress: float | None) -> dict[str, float]:
        """One batch; the error at the cut is in the loss it tells."""
        rng = draws(self._course.texts.seed, STAGE, number)
        lessons = lessons_of(self._course.batch(number), self._patterns, self._config, rng)
        also_last = bool(rng.random() < self._rates.last_share)
        self._words.take(np.concatenate([lesson.read for lesson in lessons]))
        loss = self._optimiser.descend(lessons, lambda part: self._loss(part, also_last), progress=progress)
        return {"loss": loss}

    def _loss(self, lessons: list[Lesson], also_last: bool) -> Tensor:
        batch = read_batch(lessons, self._config)
        cut = self._teacher.at_cut(batch)
        states = local_states(self._local, batch, self._teacher.arithmetic, self._words)
        error = squared_error(states, cut, batch, self._scale.cut)
        if not also_last:
            return error
        with torch.no_grad():
            last = self._teacher.upper_states(cut, batch)
        found = self._teacher.upper_states(states, batch)
        return error + self._rates.last_weight * squared_error(found, last, batch, self._scale.last)

    def tensors(self) -> Mapping[str, Tensor]:
        """The local half and what the optimiser knows."""
        return local_tensors(self._local) | self._optimiser.tensors()

    def restore(self, tensors: Mapping[str, Tensor], done: int) -> None:
        """The inverse of `tensors`."""
        restore_local(self._local, tensors)
        self._optimiser.restore(tensors, done)


def local_optimiser(
    local: LocalLower, *, steps: int, warmup: int, learning_rate: float, composition_rate: float | None
) -> tuple[WordRows, Optimiser]:
    """What trains a local half. composition_rate: of the biases that enter after the sum; None leaves all
    that enters there as it is, for it belongs to the root.
    """
    local.requires_grad_(True)
    after = local.composition.tensors()
    biases = {"position_bias", "type_bias"}
    if composition_rate is None:
        biases = set(after)
    named = dict(local.named_parameters())
    words = WordRows(named[WORDS], learning_rate)
    local.get_parameter(WORDS).requires_grad_(False)
    usual = [p for name, p in named.items() if name not in biases and name != WORDS]
    groups = [{"params": usual, "lr": learning_rate}]
    if composition_rate is None:
        for name in biases:
            named[name].requires_grad_(False)
    else:
        groups.append({"params": [named[name] for name in sorted(biases)], "lr": composition_rate})
    return words, Optimiser(groups, steps=steps, warmup=warmup, words=words)


def local_tensors(local: LocalLower) -> dict[str, Tensor]:
    """The weights of a local half, for a checkpoint."""
    return {f"local.{name}": value for name, value in local.state_dict().items()}


def restore_local(local: LocalLower, tensors: Mapping[str, Tensor]) -> None:
    """The inverse of `local_tensors`."""
    prefix = "local."
    own = {name[len(prefix) :]: value for name, value in tensors.items() if name.startswith(prefix)}
    local.load_state_dict(own)
