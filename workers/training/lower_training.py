"""Training of lower layers: distillation of a local lower half, and a domain's language."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from inference.hplm import fragments
from inference.hplm.encoder import FullLower
from inference.hplm.local_lower import LocalLower
from inference.hplm.root_config import RootConfig
from workers.training.checkpoints import seeded_rng
from workers.training.hidden_states import WORDS, Teacher, local_states
from workers.training.masked_language_model import LanguageModel, MaskedSequence, mask_tokens
from workers.training.optimizer import Optimizer, SparseAdamW, with_prefix
from workers.training.progress import Reporter
from workers.training.sequences import Batch, LookupSequence, TokenSequence, make_batch, make_lookup_batch
from workers.training.simulated_misses import MissSampler
from workers.training.training_corpus import BatchSampler
from workers.training.unexplained_variance import RunningVariance

STAGE = 2
DISTILLATION_WARMUP_STEPS = 40
DOMAIN_WARMUP_STEPS = 10


class LowerTraining:
    """Base of the trainings of lower layers: their optimizer, and their state for checkpoints.

    composition_rate: learning rate of the position and type biases of a local lower half. None freezes them
    and all else that enters after the sum, which belongs to the root.
    """

    def __init__(
        self,
        lower: LocalLower | FullLower,
        *,
        steps: int,
        warmup: int,
        learning_rate: float,
        composition_rate: float | None = None,
    ) -> None:
        self._lower = lower
        lower.requires_grad_(True)
        biases = {"position_bias", "type_bias"}
        if composition_rate is None:
            biases = set(lower.composition.tensors()) if isinstance(lower, LocalLower) else set()
        named = dict(lower.named_parameters())
        self._words = SparseAdamW(named[WORDS], learning_rate)
        lower.get_parameter(WORDS).requires_grad_(False)
        others = [p for name, p in named.items() if name not in biases and name != WORDS]
        groups = [{"params": others, "lr": learning_rate}]
        if composition_rate is None:
            for name in biases:
                named[name].requires_grad_(False)
        else:
            groups.append({"params": [named[name] for name in sorted(biases)], "lr": composition_rate})
        self._optimizer = Optimizer(groups, steps=steps, warmup=warmup, words=self._words)

    def state_dict(self) -> Mapping[str, Tensor]:
        """The weights of the lower layers and the optimizer's moments."""
        return lower_state_dict(self._lower) | self._optimizer.state_dict()

    def load_state_dict(self, tensors: Mapping[str, Tensor], steps: int) -> None:
        """Restore `state_dict` as it was after `steps` steps."""
        load_lower_state_dict(self._lower, tensors)
        self._optimizer.load_state_dict(tensors, steps)


def lower_state_dict(lower: LocalLower | FullLower) -> dict[str, Tensor]:
    """The weights of lower layers, for a checkpoint."""
    return {f"lower.{name}": value for name, value in lower.state_dict().items()}


def load_lower_state_dict(lower: LocalLower | FullLower, tensors: Mapping[str, Tensor]) -> None:
    """Restore the weights of lower layers from a checkpoint."""
    lower.load_state_dict(with_prefix(tensors, "lower."))


@dataclass(frozen=True)
class Variances:
    """The variance per token of the teacher's states at the cut and at the last layer; it scales errors."""

    cut: float
    last: float


@torch.no_grad()
def measure_variances(
    teacher: Teacher, batches: Sequence[list[TokenSequence]], config: RootConfig, reporter: Reporter
) -> Variances:
    """Measure the variances on a few batches."""
    cut, last = RunningVariance(), RunningVariance()
    for sequences in batches:
        reporter.raise_if_cancelled()
        batch = make_batch(sequences, config, teacher.precision.device)
        states = teacher.at_cut(batch)
        cut.add(batch.tokens_of(states))
        last.add(batch.tokens_of(teacher.upper_states(states, batch)))
    return Variances(cut.variance, last.variance)


def normalised_error(states: Tensor, target: Tensor, batch: Batch, variance: float) -> Tensor:
    """Mean squared error per token over the variance: 1 is as good as predicting the mean state."""
    return batch.tokens_of(states - target).square().sum(-1).mean() / variance


@dataclass(frozen=True)
class DistillationRates:
    """learning_rate: of layers, words, maps and context; position: of position and type biases.

    last_weight: of the error after the last layer, beside that at the cut. last_share: the share of the steps
    that compute it; it takes a third of a step's time and pulls against the error at the cut.
    """

    learning_rate: float
    position: float
    last_weight: float
    last_share: float


class Distillation(LowerTraining):
    """Trains a local lower half to give the states of the original lower half with full context."""

    def __init__(
        self,
        local: LocalLower,
        teacher: Teacher,
        config: RootConfig,
        variances: Variances,
        misses: MissSampler,
        sampler: BatchSampler,
        rates: DistillationRates,
    ) -> None:
        super().__init__(
            local,
            steps=len(sampler),
            warmup=DISTILLATION_WARMUP_STEPS,
            learning_rate=rates.learning_rate,
            composition_rate=rates.position,
        )
        self._local, self._teacher, self._config = local, teacher, config
        self._variances, self._misses, self._sampler, self._rates = variances, misses, sampler, rates

    def step(self, number: int, progress: float | None) -> dict[str, float]:
        """Train on one batch and return its loss."""
        rng = seeded_rng(self._sampler.corpus.seed, STAGE, number)
        items = [self._sample_lookups(one, rng) for one in self._sampler.batch(number)]
        with_last = bool(rng.random() < self._rates.last_share)
        self._words.select(np.concatenate([item.lookups for item in items]))
        loss = self._optimizer.train_step(items, lambda part: self._loss(part, with_last), progress=progress)
        return {"loss": loss}

    def _sample_lookups(self, sequence: TokenSequence, rng: np.random.Generator) -> LookupSequence:
        missing = self._config.missing_id
        complete = fragments.extract(sequence.ids, missing, self._config.n)
        return LookupSequence(sequence, self._misses.sample(complete, rng, missing))

    def _loss(self, items: list[LookupSequence], with_last: bool) -> Tensor:
        batch = make_lookup_batch(items, self._config, self._teacher.precision.device)
        cut = self._teacher.at_cut(batch)
        states = local_states(self._local, batch, self._teacher.precision, self._words)
        error = normalised_error(states, cut, batch, self._variances.cut)
        if not with_last:
            return error
        with torch.no_grad():
            last = self._teacher.upper_states(cut, batch)
        found = self._teacher.upper_states(states, batch)
        return error + self._rates.last_weight * normalised_error(found, last, batch, self._variances.last)


class DomainTraining(LowerTraining):
    """Trains a domain's lower layers as a masked language model (paper section 5.1).

    Those of fragments and those with full context learn from the same masked tokens. distillation_weight: of
    the squared error at the cut against the original lower layers, so that the states stay close to theirs.
    variance: what that error is divided by.
    """

    def __init__(
        self,
        model: LanguageModel,
        sampler: BatchSampler,
        misses: MissSampler,
        *,
        seed: int,
        learning_rate: float,
        distillation_weight: float,
        variance: float,
    ) -> None:
        super().__init__(
            model.lower, steps=len(sampler), warmup=DOMAIN_WARMUP_STEPS, learning_rate=learning_rate
        )
        self._model, self._sampler, self._misses = model, sampler, misses
        self._seed, self._distillation_weight, self._variance = seed, distillation_weight, variance

    def step(self, number: int, progress: float | None) -> dict[str, float]:
        """Train on one batch and return its loss."""
        rng = seeded_rng(self._seed, STAGE, number)
        masked = [
            mask_tokens(one, self._model.config, rng, self._misses) for one in self._sampler.batch(number)
        ]
        self._words.select(np.concatenate([one.lookups for one in masked]))
        loss = self._optimizer.train_step(
            masked, self._losses, weight_of=(_masked_count, len), progress=progress
        )
        return {"loss": loss}

    def _losses(self, sequences: list[MaskedSequence]) -> tuple[Tensor, Tensor]:
        """A mean over the masked tokens, and one over all tokens."""
        masked = self._model.batch(sequences)
        states = self._model.states(masked, self._words)
        loss = self._model.loss(masked, states)
        if not self._distillation_weight:
            return loss, torch.zeros_like(loss)
        target = self._model.teacher.at_cut(masked.batch)
        error = normalised_error(states, target, masked.batch, self._variance)
        return loss, self._distillation_weight * error


def _masked_count(sequence: MaskedSequence) -> float:
    return len(sequence.positions)
