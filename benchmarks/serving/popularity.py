"""How many of a batch's rows ask for which model (Punica, section 7)."""

import math
from collections.abc import Callable
from typing import Final

SKEW: Final = 1.5
"""So many times more rows ask for a model than for the next popular one."""


def _uniform(rows: int) -> list[int]:
    models = math.ceil(math.sqrt(rows))
    return [rows // models + (model < rows % models) for model in range(models)]


def _skewed(rows: int) -> list[int]:
    counts = []
    while rows:
        counts.append(max(1, round(rows * (1 - 1 / SKEW))))
        rows -= counts[-1]
    return counts


POPULARITIES: Final[dict[str, Callable[[int], list[int]]]] = {
    "distinct": lambda rows: [1] * rows,
    "uniform": _uniform,
    "skewed": _skewed,
    "identical": lambda rows: [rows],
}
"""By name: the rows of each model, the most popular first, in a batch of so many rows."""
