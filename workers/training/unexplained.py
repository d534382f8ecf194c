"""How far a local lower half is from the original model, as a share of variance left unexplained."""

from collections.abc import Sequence

import torch
from torch import Tensor

from inference.hplm import fragments
from inference.hplm.local_lower import LocalLower
from inference.hplm.root_config import RootConfig
from workers.training.corpus import Ids
from workers.training.precision import Arithmetic
from workers.training.progress import Reporter
from workers.training.sequences import make_batch
from workers.training.states import Teacher, local_states

LEVELS = dict(zip(fragments.LEVEL_NAMES, fragments.LEVELS, strict=True))


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


@torch.no_grad()
def measure(
    local: LocalLower,
    teacher: Teacher,
    groups: Sequence[list[Ids]],
    config: RootConfig,
    arithmetic: Arithmetic,
    reporter: Reporter,
    *,
    levels: Sequence[str] = tuple(LEVELS),
) -> dict[str, dict[str, float]]:
    """{level: {"cut": share, "last": share}}, every fragment of the text read at that level."""
    spreads = {level: (Spread(), Spread()) for level in levels}
    for sequences in groups:
        reporter.check()
        batch = make_batch(sequences, config)
        mask = batch.mask.to(arithmetic.device)
        cut = teacher.at_cut(batch)
        last = teacher.upper_states(cut, batch)
        for level, (at_cut, at_last) in spreads.items():
            degraded = fragments.degrade(batch.unique, LEVELS[level], config.missing_id)
            states = local_states(local, batch, arithmetic, degraded)
            at_cut.add(cut[mask], states[mask])
            at_last.add(last[mask], teacher.upper_states(states, batch)[mask])
    return {
        level: {"cut": round(at_cut.unexplained, 4), "last": round(at_last.unexplained, 4)}
        for level, (at_cut, at_last) in spreads.items()
    }
