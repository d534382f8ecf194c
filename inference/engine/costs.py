"""What a batch costs, by its rows and the length they are padded to: measured, not guessed (PetS, section
4.1)."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from inference.engine.batcher import BatchLimits

ROWS, LENGTHS, REPEATS = (1, 4, 16, 64, 256), (8, 16, 32, 64, 128, 256, 512), 3
PROFILE_S: Final = 1.0
FIXED_TOKENS: Final = 256
PARTING_TOKENS: Final = 32
TOKEN_S: Final = 1e-5
KEPT: Final = 0.98


@dataclass(frozen=True, slots=True, eq=False)
class CostTable:
    """Seconds [R, L] of batches of ``rows`` [R] padded to ``lengths`` [L]; all three ascend along each
    axis."""

    rows: NDArray[np.int64]
    lengths: NDArray[np.int64]
    seconds: NDArray[np.float64]

    @property
    def token_s(self) -> float:
        """Seconds of a token of the largest batch."""
        return float(self.seconds[-1, -1] / (self.rows[-1] * self.lengths[-1]))

    def grid(self, rows: int, longest: int) -> NDArray[np.float64]:
        """Seconds [longest + 1, rows]: of m rows padded to l tokens at [l, m - 1]. Linear between what was
        measured and beyond it, so that more rows or longer ones never cost less."""
        along = _extended(self.lengths, self.seconds, np.arange(longest + 1))
        # What was measured ascends, but its continuations may cross.
        along = np.maximum.accumulate(along, axis=0)
        return np.maximum.accumulate(_extended(self.rows, along.T, np.arange(1, rows + 1)), axis=0)


class Costs:
    """What the steps of one executor cost: a table of its upper layers, and how whole steps differ from it,
    learnt from the steps themselves. Without a table padded tokens count, and a step as much as some.

    parting_s: what batches are to save before rows are parted that could go together. Who learnt from small
    batches alone that these are as good as large ones would make no others, and never learn better.
    """

    def __init__(self, table: CostTable | None = None) -> None:
        self.fixed_s, self.scale = (0.0, 1.0) if table else (FIXED_TOKENS * TOKEN_S, 1.0)
        self._measured = table is not None
        self._table = table or _padded_tokens()
        self.parting_s = PARTING_TOKENS * self._table.token_s if table else 0.0
        self._seconds = np.empty((0, 0))
        self._moments = np.zeros(5)

    def of(self, lengths: NDArray[np.int64], rows: int) -> NDArray[np.float64]:
        """Seconds [N, rows]: of 1 to ``rows`` rows padded to each of ``lengths`` [N]."""
        grid = self._grid(int(lengths.max()), rows)
        found: NDArray[np.float64] = self.fixed_s + self.scale * grid[lengths, :rows]
        return found

    def learn(self, rows: int, longest: int, seconds: float) -> None:
        """A step of such a batch took ``seconds`` in all: something fixed, and so many times what the table
        says (least squares, older steps weigh less). Nothing is learnt without a table."""
        if not self._measured:
            return
        told = max(1e-9, float(self._grid(longest, rows)[longest, rows - 1]))
        # A step that waited for something else, such as a file, says little about the next.
        seconds = min(seconds, 4 * (self.fixed_s + max(1.0, self.scale) * told))
        self._moments *= KEPT
        self._moments += (1.0, told, seconds, told * told, told * seconds)
        told, seconds, squares, products = (self._moments[1:] / self._moments[0]).tolist()
        # While all batches are alike, the table is believed: all that differs is fixed.
        doubt = (0.1 * told) ** 2
        slope = (products - told * seconds + doubt) / (squares - told * told + doubt)
        self.scale = min(max(slope, 0.1), seconds / told)
        self.fixed_s = max(0.0, seconds - self.scale * told)
        self.parting_s = max(0.0, PARTING_TOKENS * self._table.token_s * self.scale - self.fixed_s)

    def _grid(self, longest: int, rows: int) -> NDArray[np.float64]:
        """The table at every length and number of rows so far asked for."""
        lengths, columns = self._seconds.shape
        if longest >= lengths or rows > columns:
            self._seconds = self._table.grid(max(rows, columns), max(longest, lengths - 1))
        return self._seconds


@dataclass(slots=True)
class _Stopwatch:
    """Measures shapes for as long as ``left_s`` lasts."""

    run: Callable[[int, int], None]
    clock: Callable[[], float]
    left_s: float

    def least(self, rows: int, length: int) -> float:
        """Seconds of the fastest of a few runs; what disturbs one only ever makes it longer."""
        least = float("inf")
        for _ in range(REPEATS):
            begun = self.clock()
            self.run(rows, length)
            taken = self.clock() - begun
            least, self.left_s = min(least, taken), self.left_s - taken
            if self.left_s <= 0:
                break
        return least


def profile(
    run: Callable[[int, int], None],
    *,
    longest: int,
    limits: BatchLimits | None = None,
    budget_s: float = PROFILE_S,
    clock: Callable[[], float] = time.perf_counter,
) -> CostTable:
    """Measure ``run(rows, length)``, which returns once the batch is computed, over a few shapes up to
    ``limits`` and ``longest`` tokens.

    Takes the budget and at most as much again. What it does not reach, or would take longer than the whole
    budget, is reckoned by padded tokens from the last that was measured; so is what exceeds the limits.
    """
    limits = limits or BatchLimits()
    rows, lengths = _axis(ROWS, limits.rows), _axis(LENGTHS, longest)
    seconds = np.zeros((len(rows), len(lengths)))
    run(rows[0], lengths[0])  # pays for what is set up once
    watch = _Stopwatch(run, clock, budget_s)
    known, known_tokens = 0.0, 0
    # Small batches first: they are the most, and say whether there is time for larger ones.
    for tokens, i, j in sorted((r * t, i, j) for i, r in enumerate(rows) for j, t in enumerate(lengths)):
        expected = known * tokens / max(known_tokens, 1)
        if known_tokens and (tokens > limits.tokens or watch.left_s <= 0 or expected > budget_s):
            seconds[i, j] = expected
            continue
        seconds[i, j] = known = watch.least(rows[i], lengths[j])
        known_tokens = tokens
    return CostTable(np.array(rows), np.array(lengths), _never_dearer_than_parts(rows, seconds))


def _never_dearer_than_parts(rows: list[int], seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each at most what more rows or longer ones took, and at most what as many smaller batches take: what
    was disturbed while it was measured must not part batches."""
    seconds = _never_dearer_than_more(seconds)
    each = np.array(rows, dtype=np.float64)[:, None]
    found: NDArray[np.float64] = each * np.minimum.accumulate(seconds / each, axis=0)
    return found


def _never_dearer_than_more(seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each at most what more rows or longer ones took: disturbances only ever add."""
    for axis in (0, 1):
        seconds = np.flip(np.minimum.accumulate(np.flip(seconds, axis), axis=axis), axis)
    return seconds


def _axis(marks: tuple[int, ...], last: int) -> list[int]:
    """The marks below ``last``, and ``last``."""
    return [*(mark for mark in marks if mark < last), last]


def _padded_tokens() -> CostTable:
    marks = np.array([1, 2])
    return CostTable(marks, marks, TOKEN_S * np.outer(marks, marks))


def _extended(
    known: NDArray[np.int64], values: NDArray[np.float64], wanted: NDArray[np.int64]
) -> NDArray[np.float64]:
    """``values`` [N, K] at ``known`` [K], ascending, brought to ``wanted`` [W]: [N, W]. In proportion where
    only one is known."""
    if len(known) == 1:
        proportional: NDArray[np.float64] = values * (wanted / known[0])
        return proportional
    right = np.clip(np.searchsorted(known, wanted), 1, len(known) - 1)
    share = (wanted - known[right - 1]) / (known[right] - known[right - 1])
    # Below the least shape nothing is cheaper than it.
    share = np.where((right == 1) & (known[0] > 1), np.maximum(share, 0.0), share)
    low, high = values[:, right - 1], values[:, right]
    found: NDArray[np.float64] = low + share * (high - low)
    return found
