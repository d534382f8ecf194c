"""A paired test of two versions on the same rows: is the new one worse?"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from workers.training.tasks.base import Floats

EXACT_ROWS: Final = 12
"""Up to this many rows that differ, all ways to swap them are counted."""
BATCHES: Final = 10
PER_BATCH: Final = 1_000
"""How many ways to swap more rows are drawn."""
SEED: Final = 0
TOLERANCE: Final = 1e-12

Metric = Callable[[Floats], Floats]
"""The metric [...] of sums [..., K] of the statistics of rows; higher is better."""


@dataclass(frozen=True, slots=True)
class PairedResult:
    """The metric of both versions on the same rows. p_value: how often a difference as bad for the new one
    comes about by chance (one-sided)."""

    metric: str
    rows: int
    old: float
    new: float
    p_value: float

    def to_json(self) -> dict[str, Any]:
        """The result as job metrics."""
        return asdict(self)


def p_value_worse(old: Floats, new: Floats, metric_of: Metric) -> float:
    """The p-value of the permutation test (approximate randomisation, Yeh 2000) against the new version being
    worse: the share of the ways to swap the answers of rows that make the metric's difference as bad.

    old, new: the statistics [N, K] of the same rows. For right or wrong answers it is the one-sided sign
    test.
    """
    differs = (old != new).any(axis=1)
    if not differs.any():
        return 1.0
    sums_old, sums_new = old.sum(axis=0), new.sum(axis=0)
    swapped = (old - new)[differs]
    seen = metric_of(sums_new) - metric_of(sums_old) + TOLERANCE
    count, total = 0, 0
    for swaps in _swaps(len(swapped)):
        moved = swaps @ swapped
        differences = metric_of(sums_new + moved) - metric_of(sums_old - moved)
        count += int((differences <= seen).sum())
        total += len(swaps)
    return count / total


def only_statistic(sums: Floats) -> Floats:
    """The sums [...] of the one statistic [..., 1] of a metric that is a mean over rows."""
    return np.asarray(sums[..., 0])


def _swaps(rows: int) -> Iterator[Floats]:
    """Which rows [R, rows] to swap, in batches: all ways, or none and then drawn ones, the same each time."""
    if rows <= EXACT_ROWS:
        yield (np.arange(1 << rows)[:, None] >> np.arange(rows) & 1).astype(np.float64)
        return
    draw = np.random.default_rng(SEED)
    yield np.zeros((1, rows))
    for _ in range(BATCHES):
        yield draw.integers(0, 2, (PER_BATCH, rows)).astype(np.float64)
