"""How far a local lower half is from the original model, as a share of variance left unexplained."""

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
from workers.training.sequences import Batch, Framed, make_batch
from workers.training.simulated_misses import Reading, everywhere, read_at


class Spread:
    """Sum of squares about the mean, and of errors, in float64, in one pass."""

    def __init__(self) -> None:
        self._count = 0
        self._sum = torch.zeros(0, dtype=torch.float64)
        self._squares = 0.0
        self._errors = 0.0

    def add(self, target: Tensor, estimate: Tensor | None = None) -> None:
        """Rows [N, d] of a target and, where there is one, their estimate."""
        target = target.double().cpu()
        self._count += len(target)
        self._sum = target.sum(0) + (self._sum if len(self._sum) else 0)
        self._squares += float(target.square().sum())
        if estimate is not None:
            self._errors += float((estimate.double().cpu() - target).square().sum())

    @property
    def variance(self) -> float:
        """Sum of squares about the mean, per row."""
        return (self._squares - float(self._sum.square().sum()) / self._count) / self._count

    @property
    def unexplained(self) -> float:
        return self._errors / (self._count * self.variance)


def level_readings(n: int) -> dict[str, Reading]:
    """Every text read at one level, by the level's name; the complete fragment first."""
    return {fragments.level_name(level, n): everywhere(level) for level in fragments.fallback_order(n)}


@torch.no_grad()
def measure(
    local: LocalLower,
    teacher: Teacher,
    groups: Sequence[list[Framed]],
    config: RootConfig,
    reporter: Reporter,
    readings: Mapping[str, Reading],
) -> dict[str, dict[str, Any]]:
    """{reading: {"cut": share, "last": share, "layers": [share, ...]}}: at the cut, after the last layer, and
    at the cut and after each layer above.
    """
    spreads: dict[str, list[Spread]] = {name: [] for name in readings}
    for batch, exact in _exact(teacher, groups, config, reporter):
        mask = batch.mask.to(exact[0].device)
        for name, reading in readings.items():
            states = local_states(local, _as_read(batch, reading, config), teacher.arithmetic)
            spreads[name] = spreads[name] or [Spread() for _ in exact]
            found = teacher.every_layer(states, batch)
            for spread, target, estimate in zip(spreads[name], exact, found, strict=True):
                spread.add(target[mask], estimate[mask])
    return {name: _figures(layers) for name, layers in spreads.items()}


@torch.no_grad()
def measure_mixed(
    local: LocalLower,
    teacher: Teacher,
    groups: Sequence[list[Framed]],
    config: RootConfig,
    reporter: Reporter,
    reading: Reading,
) -> dict[str, dict[str, float]]:
    """Of texts read as a table gives them, by the level of a token's own fragment: {level: {"cut": share,
    "share": of the tokens}}; the variance is that of all tokens.
    """
    names = fragments.level_names(config.n)
    errors, counts, spread = np.zeros(len(names)), np.zeros(len(names)), Spread()
    for batch, exact in _exact(teacher, groups, config, reporter):
        read = _as_read(batch, reading, config)
        states = local_states(local, read, teacher.arithmetic)
        mask = batch.mask.to(states.device)
        spread.add(exact[0][mask])
        own = fragments.fragment_levels(read.unique, config.missing_id)[read.where[read.mask].numpy()]
        squared = (states - exact[0])[mask].square().sum(-1).double().cpu().numpy()
        errors += np.bincount(own, weights=squared, minlength=len(names))
        counts += np.bincount(own, minlength=len(names))
    return {
        names[level]: {
            "cut": round(float(errors[level] / counts[level] / spread.variance), 4),
            "share": round(float(counts[level] / counts.sum()), 4),
        }
        for level in fragments.fallback_order(config.n)
        if counts[level]
    }


def _exact(
    teacher: Teacher, groups: Sequence[list[Framed]], config: RootConfig, reporter: Reporter
) -> Iterable[tuple[Batch, list[Tensor]]]:
    for sequences in groups:
        reporter.check()
        batch = make_batch(sequences, config)
        yield batch, teacher.every_layer(teacher.at_cut(batch), batch)


def _as_read(batch: Batch, reading: Reading, config: RootConfig) -> Batch:
    """The levels of a text's fragments go by its fragments alone, so all texts are read in one go."""
    return batch.reading(read_at(batch.fragments, reading(batch.fragments), config.missing_id))


def _figures(layers: Sequence[Spread]) -> dict[str, Any]:
    shares = [round(layer.unexplained, 4) for layer in layers]
    return {"cut": shares[0], "last": shares[-1], "layers": shares}
