"""Which rows go into the next step."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

WINDOW: Final = 256
NEVER: Final = 1 << 60


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """At most ``rows`` rows and, padding included, ``tokens`` tokens in a step; a row longer than that goes
    alone."""

    rows: int = 32
    tokens: int = 8192

    def __post_init__(self) -> None:
        if self.rows < 1 or self.tokens < 1:
            raise ValueError("a batch has room for at least one row of one token")

    @property
    def window(self) -> int:
        """How many rows are looked at to find company for the first: the time to choose grows with them."""
        return max(WINDOW, self.rows)


class StepCosts(Protocol):
    """See `inference.engine.costs.Costs`."""

    parting_s: float

    def of(self, lengths: NDArray[np.int64], rows: int) -> NDArray[np.float64]:
        """Seconds [N, rows]: of 1 to ``rows`` rows padded to each of ``lengths`` [N]."""


def next_batch(lengths: Sequence[int], limits: BatchLimits, costs: StepCosts) -> list[int]:
    """Positions, ascending, of the rows to compute next among waiting rows of ``lengths`` tokens, those due
    first in front.

    The first ``limits.window`` rows are parted into batches of least cost in all (PetS, algorithm 1): of
    rows in order of length a batch holds neighbours. The batch of the first row goes, so that nothing waits
    for ever.
    """
    if len(lengths) < 2:
        return list(range(len(lengths)))
    window = np.asarray(lengths[: limits.window], dtype=np.int64)
    # Longest first; of equal ones those due last in front, so that what does not fill a batch is they.
    order = np.argsort(window, kind="stable")[::-1]
    descending = window[order]
    begin, end = _batch_of(int(np.flatnonzero(order == 0)[0]), _cuts(descending, limits, costs))
    return sorted(_due_first(order, descending, begin, end))


def rows_in(stretch: float, length: int, limits: BatchLimits, costs: StepCosts) -> int:
    """How many rows of that length a batch may have to take at most ``stretch`` times as long as one."""
    most = max(1, min(limits.rows, limits.tokens // length))
    seconds = costs.of(np.array([length]), most)[0]
    return int(np.searchsorted(seconds, stretch * seconds[0], side="right"))


def _cuts(descending: NDArray[np.int64], limits: BatchLimits, costs: StepCosts) -> list[int]:
    """For each number n of rows, from 0, where the last batch begins when the first n are parted best.

    Of equally good ones the largest batch. Whole nanoseconds: sums in another order must not differ.
    """
    count = len(descending)
    most = min(limits.rows, count)
    size = np.arange(most, 0, -1)
    begins = np.arange(1, count + 1)[:, None] - size
    price = np.rint((costs.of(descending, most) + costs.parting_s) * 1e9).astype(np.int64)[begins, size - 1]
    too_many = (size > 1) & (size * descending[begins] > limits.tokens)
    price[(begins < 0) | too_many] = NEVER
    least = np.full(most + count + 1, NEVER, dtype=np.int64)
    least[most] = 0
    cuts, total = [0], np.empty(most, dtype=np.int64)
    for n, prices in enumerate(price):
        np.add(least[n + 1 : n + 1 + most], prices, out=total)
        best = int(total.argmin())
        least[most + n + 1] = total[best]
        cuts.append(n + 1 - most + best)
    return cuts


def _batch_of(place: int, cuts: list[int]) -> tuple[int, int]:
    """Begin and end of the batch that holds ``place``."""
    end = len(cuts) - 1
    while cuts[end] > place:
        end = cuts[end]
    return cuts[end], end


def _due_first(order: NDArray[np.int64], descending: NDArray[np.int64], begin: int, end: int) -> list[int]:
    """The positions of a batch; where it takes only some of the rows of its least length, those due
    first."""
    shortest = descending[begin:end] == descending[end - 1]
    partial = int(shortest.sum())
    group_end = int(np.searchsorted(-descending, -descending[end - 1], side="right"))
    positions: list[int] = (
        order[begin : end - partial].tolist() + order[group_end - partial : group_end].tolist()
    )
    return positions
