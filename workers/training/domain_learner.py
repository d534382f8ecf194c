"""The steps in which a domain's lower half learns its language (paper section 5.1)."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from workers.training.checkpoints import draws
from workers.training.distillation import local_optimiser, local_tensors, restore_local, squared_error
from workers.training.masked_language_model import Hidden, LanguageModel, hide, masked_batch
from workers.training.simulated_misses import Patterns
from workers.training.training_texts import Course

STAGE = 2
WARMUP_STEPS = 10


class DomainLearning:
    """Takes the steps of a domain's lower half: hidden words are guessed, and the states stay like those of
    the original lower layers.

    similarity_weight: weight of the squared error at the cut against those. variance: what that error is
    divided by.
    """

    def __init__(
        self,
        model: LanguageModel,
        course: Course,
        patterns: Patterns,
        *,
        seed: int,
        learning_rate: float,
        similarity_weight: float,
        variance: float,
    ) -> None:
        self._model, self._course, self._patterns = model, course, patterns
        self._seed, self._similarity_weight, self._variance = seed, similarity_weight, variance
        self._words, self._optimiser = local_optimiser(
            model.local,
            steps=len(course),
            warmup=WARMUP_STEPS,
            learning_rate=learning_rate,
            composition_rate=None,
        )

    def step(self, number: int, progress: float | None) -> dict[str, float]:
        """Take step `number`; its loss."""
        rng = draws(self._seed, STAGE, number)
        config = self._model.config
        hidden = [hide(one, config, rng, self._patterns) for one in self._course.batch(number)]
        self._words.take(np.concatenate([one.read for one in hidden]))
        loss = self._optimiser.descend(hidden, self._losses, weight_of=(_guessed, len), progress=progress)
        return {"loss": loss}

    def _losses(self, hidden: list[Hidden]) -> tuple[Tensor, Tensor]:
        """The mean over the hidden words, and that over all."""
        masked = masked_batch(hidden, self._model.config)
        states = self._model.states(masked, self._words)
        loss = self._model.loss(masked, states)
        if not self._similarity_weight:
            return loss, torch.zeros_like(loss)
        original = self._model.teacher.at_cut(masked.batch)
        unlikeness = squared_error(states, original, masked.batch, self._variance)
        return loss, self._similarity_weight * unlikeness

    def tensors(self) -> Mapping[str, Tensor]:
        """The lower half and the optimiser's own."""
        return local_tensors(self._model.local) | self._optimiser.tensors()

    def restore(self, tensors: Mapping[str, Tensor], done: int) -> None:
        """Be as it was after `done` steps."""
        restore_local(self._model.local, tensors)
        self._optimiser.restore(tensors, done)


def _guessed(one: Hidden) -> float:
    return len(one.places)
