"""Conversions of a decoder's lower layers to fragments: a closed form, and distillation from there."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch
from torch import Tensor
from torch.nn import Parameter, functional

from benchmarks.accuracy.hgpt.fragments import Ids
from benchmarks.accuracy.hgpt.lower_layers import LocalLowerLayers, full_states, incomplete
from benchmarks.accuracy.hgpt.texts import Texts
from inference.decoder.decoder import Decoder
from inference.decoder.dense_attention import DenseAttention
from workers.training.checkpoints import seeded_rng
from workers.training.optimizer import Optimizer
from workers.training.progress import Reporter
from workers.training.ridge_regression import NormalEquations

PENALTY_SHARE: Final = 0.03
"""Of the mean variance of a number of the states."""
WARMUP_SHARE: Final = 0.06


@torch.no_grad()
def fit_closed_form(
    local: LocalLowerLayers, teacher: Decoder, texts: Texts, lengths: Sequence[int] | None = None
) -> LocalLowerLayers:
    """`local` with the maps of fragments of these lengths (None: n) fitted by ridge regression.

    The targets are the teacher's states with full context. The penalty draws what is added to zero. Adding
    what the states further left tell does not lower the error on held-out text: that needs more to fit on.
    """
    targets = torch.cat([full_states(teacher, batch, local.layers) for batch in texts.batches()])
    maps, bias = local.maps.clone(), local.bias.clone()
    for length in lengths or (local.n,):
        wanted = local.lengths(texts, np.full(len(targets), length))
        rows = incomplete(texts, wanted, length)
        if not len(rows):
            continue
        states = torch.cat([local.plain(*part) for part in _parts(texts, wanted)])[rows]
        equations = NormalEquations(states.shape[1], states.shape[1])
        equations.add(states, targets[rows] - states)
        penalty = PENALTY_SHARE * float(states.var(dim=0, correction=0).mean()) * len(rows)
        maps[length - 1], bias[length - 1] = equations.solve(max(penalty, 1e-6))
    return replace(local, maps=maps, bias=bias)


def _parts(texts: Texts, lengths: Ids) -> list[tuple[Texts, Ids]]:
    """The batches of the texts with their part of the lengths."""
    batches = list(texts.batches())
    cuts = np.cumsum([batch.layout.tokens for batch in batches])[:-1]
    return list(zip(batches, np.split(lengths, cuts), strict=True))


@dataclass(frozen=True, kw_only=True)
class Distillation:
    """How long and how fast lower layers learn.

    texts: of a step. learning_rate: the peak, of the layers and of the maps. last_share: of the steps, those
    that learn from the last layer, too, which cost several times as much.
    """

    steps: int
    texts: int
    learning_rate: float
    last_share: float = 0.25
    seed: int = 0

    def learns_from_last(self, step: int) -> bool:
        """Whether this step does, counted from 0."""
        return int((step + 1) * self.last_share) > int(step * self.last_share)


@dataclass(frozen=True, eq=False)
class _Example:
    """One text with the teacher's states [T, hidden] at the cut."""

    ids: Ids
    cut: Tensor


def distil(
    local: LocalLowerLayers, texts: Texts, settings: Distillation, reporter: Reporter
) -> LocalLowerLayers:
    """`local` with its layers, maps and bias trained on complete fragments.

    The loss is the squared error at the cut as a share of the variance there. In `last_share` of the steps
    the divergence (KL, nats) of the next token's distribution from the full model's comes to it. The upper
    layers are the teacher's and stay.
    """
    teacher = local.decoder
    examples = _examples(local, texts)
    own = {name: Parameter(weight.clone()) for name, weight in local.layer_weights().items()}
    maps, bias = Parameter(local.maps.clone()), Parameter(local.bias.clone())
    student = replace(
        local, decoder=Decoder(teacher.architecture, {**teacher.weights, **own}), maps=maps, bias=bias
    )
    rate = settings.learning_rate
    optimizer = Optimizer(
        [{"params": [*own.values(), maps, bias], "lr": rate}],
        steps=settings.steps,
        warmup=round(WARMUP_SHARE * settings.steps),
    )
    variance = _variance(examples)
    reporter.start_stage("distil", settings.steps)
    for step in range(settings.steps):
        reporter.raise_if_cancelled()
        loss = optimizer.train_step(
            _examples_of_step(examples, settings, step),
            _Loss(student, variance, settings.learns_from_last(step)),
            weight_of=lambda example: len(example.ids),
        )
        reporter.report(step + 1, loss=loss)
    trained = {**teacher.weights, **{name: weight.detach() for name, weight in own.items()}}
    return replace(
        local, decoder=Decoder(teacher.architecture, trained), maps=maps.detach(), bias=bias.detach()
    )


def _examples_of_step(examples: Sequence[_Example], settings: Distillation, step: int) -> list[_Example]:
    """Those of a step: all examples in a new order, again and again."""
    numbers = [settings.texts * step + at for at in range(settings.texts)]
    orders = {
        cycle: seeded_rng(settings.seed, 1, cycle).permutation(len(examples))
        for cycle in {number // len(examples) for number in numbers}
    }
    return [examples[orders[number // len(examples)][number % len(examples)]] for number in numbers]


@torch.no_grad()
def _examples(local: LocalLowerLayers, texts: Texts) -> list[_Example]:
    found = []
    for batch in texts.batches():
        cut = full_states(local.decoder, batch, local.layers)
        found += [_Example(*part) for part in zip(batch.ids, batch.layout.split(cut), strict=True)]
    return found


def upper_states(decoder: Decoder, texts: Texts, states: Tensor, lower: int) -> Tensor:
    """The states [T, hidden] above the last layer of those [T, hidden] above the lowest `lower` layers."""
    layers = range(lower, decoder.architecture.layers)
    return decoder.run_layers(states, texts.positions, DenseAttention(texts.layout), layers=layers)


def _variance(examples: Sequence[_Example]) -> Tensor:
    """Of the states at the cut, summed over their numbers; without the first of each text, which is exact and
    many times as large."""
    return torch.cat([example.cut[1:] for example in examples]).var(dim=0, correction=0).sum().clamp(min=1e-6)


@dataclass(frozen=True, eq=False)
class _Loss:
    """The mean loss by token of some texts."""

    student: LocalLowerLayers
    variance: Tensor
    learns_from_last: bool

    def __call__(self, batch: Sequence[_Example]) -> Tensor:
        texts = Texts(tuple(example.ids for example in batch))
        states, wanted = self.student.states(texts), torch.cat([example.cut for example in batch])
        error = (states - wanted).square().sum(dim=1).mean() / self.variance
        return error + self._divergence(texts, states, wanted) if self.learns_from_last else error

    def _divergence(self, texts: Texts, states: Tensor, wanted: Tensor) -> Tensor:
        decoder, layers = self.student.decoder, self.student.layers
        with torch.no_grad():
            target = functional.log_softmax(
                decoder.logits(upper_states(decoder, texts, wanted, layers)), dim=-1
            )
        found = functional.log_softmax(decoder.logits(upper_states(decoder, texts, states, layers)), dim=-1)
        return functional.kl_div(found, target, reduction="batchmean", log_target=True)
