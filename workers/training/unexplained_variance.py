"""The error of a local lower half against the original model, as the share of variance left unexplained."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from inference.hplm import fragments
from inference.hplm.local_lower import LocalLower
from inference.hplm.root_config import RootConfig
from workers.training.hidden_states import Teacher, local_states
from workers.training.progress import Reporter
from workers.training.sequences import Batch, TokenSequence, make_batch
from workers.training.simulated_misses import LevelFunction, constant_level, shorten_batch


class RunningVariance:
    """The variance of targets and the squared error of their estimates, in float64, in one pass."""

    def __init__(self) -> None:
        self._count = 0
        self._sum = torch.zeros(0, dtype=torch.float64)
        self._squares = 0.0
        self._errors = 0.0

    def add(self, target: Tensor, estimate: Tensor | None = None) -> None:
        """Add rows [N, d] of a target and, if given, of its estimate."""
        target = target.double()
        self._count += len(target)
        self._sum = target.sum(0).cpu() + (self._sum if len(self._sum) else 0)
        self._squares += float(target.square().sum())
        if estimate is not None:
            self._errors += float((estimate.double() - target).square().sum())

    @property
    def variance(self) -> float:
        """The sum of squares about the mean, per row."""
        return (self._squares - float(self._sum.square().sum()) / self._count) / self._count

    @property
    def unexplained(self) -> float:
        return self._errors / (self._count * self.variance)


def level_functions(n: int) -> dict[str, LevelFunction]:
    """Constant level functions by the level's name; the complete fragment first."""
    return {fragments.level_name(level, n): constant_level(level) for level in fragments.fallback_order(n)}


@torch.no_grad()
def measure(
    local: LocalLower,
    teacher: Teacher,
    batches: Sequence[list[TokenSequence]],
    config: RootConfig,
    reporter: Reporter,
    levels: Mapping[str, LevelFunction],
) -> dict[str, dict[str, Any]]:
    """Return {name: {"cut": share, "last": share, "layers": [share, ...]}} for each level function.

    The shares are those at the cut, after the last layer, and at the cut and after each layer above.
    """
    variances: dict[str, list[RunningVariance]] = {name: [] for name in levels}
    for batch, exact in _teacher_states(teacher, batches, config, reporter):
        for name, level_function in levels.items():
            states = local_states(
                local, shorten_batch(batch, level_function, config.missing_id), teacher.precision
            )
            variances[name] = variances[name] or [RunningVariance() for _ in exact]
            found = teacher.all_layers(states, batch)
            for variance, target, estimate in zip(variances[name], exact, found, strict=True):
                variance.add(batch.tokens_of(target), batch.tokens_of(estimate))
    return {name: _figures(layers) for name, layers in variances.items()}


@torch.no_grad()
def measure_mixed(
    local: LocalLower,
    teacher: Teacher,
    batches: Sequence[list[TokenSequence]],
    config: RootConfig,
    reporter: Reporter,
    level_function: LevelFunction,
) -> dict[str, dict[str, float]]:
    """Return {level: {"cut": unexplained share, "share": of the tokens}} by the level of a token's fragment.

    Texts are looked up with `level_function`; the variance is that of all tokens.
    """
    names = fragments.level_names(config.n)
    errors, counts, variance = np.zeros(len(names)), np.zeros(len(names)), RunningVariance()
    for batch, exact in _teacher_states(teacher, batches, config, reporter):
        shortened = shorten_batch(batch, level_function, config.missing_id)
        states = local_states(local, shortened, teacher.precision)
        variance.add(batch.tokens_of(exact[0]))
        own = fragments.fragment_levels(shortened.unique, config.missing_id)[
            shortened.lookup_index[shortened.mask].numpy()
        ]
        squared = batch.tokens_of(states - exact[0]).square().sum(-1).double().cpu().numpy()
        errors += np.bincount(own, weights=squared, minlength=len(names))
        counts += np.bincount(own, minlength=len(names))
    return {
        names[level]: {
            "cut": round(float(errors[level] / counts[level] / variance.variance), 4),
            "share": round(float(counts[level] / counts.sum()), 4),
        }
        for level in fragments.fallback_order(config.n)
        if counts[level]
    }


def _teacher_states(
    teacher: Teacher, batches: Sequence[list[TokenSequence]], config: RootConfig, reporter: Reporter
) -> Iterable[tuple[Batch, list[Tensor]]]:
    for sequences in batches:
        reporter.raise_if_cancelled()
        batch = make_batch(sequences, config, teacher.precision.device)
        yield batch, teacher.all_layers(teacher.at_cut(batch), batch)


def _figures(layers: Sequence[RunningVariance]) -> dict[str, Any]:
    shares = [round(layer.unexplained, 4) for layer in layers]
    return {"cut": shares[0], "last": shares[-1], "layers": shares}
