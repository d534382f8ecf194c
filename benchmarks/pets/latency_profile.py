"""The latency models α and β of PetS, measured on this machine: the shared operators by number of queries and
padded length, and the PET operators of each kind."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks import harness
from benchmarks.pets.coordinated_batching import MOST_QUERIES
from benchmarks.pets.kinds import KINDS
from benchmarks.pets.upper_layers import Upper
from benchmarks.serving.timing import interleaved

COUNTS: Final = (1, 2, 4, 8, 16, 32)
LENGTHS: Final = (4, 16, 32, 64)
QUICK_COUNTS, QUICK_LENGTHS = (1, 8), (16, 48)
LONGEST: Final = 128
"""Tokens of a query; longer ones are cut."""
Table = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Latency:
    """Seconds by number of queries and length. table [MOST_QUERIES + 1][LONGEST + 1]: interpolated, and made
    to grow with both: no policy may live on the errors of a measurement."""

    table: list[list[float]]

    def __call__(self, count: int, length: int) -> float:
        return self.table[count][length]

    @classmethod
    def of(cls, counts: Sequence[int], lengths: Sequence[int], seconds: Table) -> "Latency":
        """From those measured [counts, lengths], both ascending."""
        grown = np.maximum.accumulate(np.maximum.accumulate(np.maximum(seconds, 0), 0), 1)
        by_count = np.stack([_line(counts, column, MOST_QUERIES) for column in grown.T], 1)
        table = np.stack([_line(lengths, row, LONGEST) for row in by_count])
        return cls(np.maximum.accumulate(np.maximum.accumulate(table, 0), 1).tolist())


def _line(at: Sequence[int], values: Table, last: int) -> Table:
    """Straight lines through the values; below the first as much as the first, beyond the last in proportion
    to the last."""
    found = np.arange(last + 1, dtype=np.float64)
    line: Table = np.interp(found, at, values) * np.maximum(1.0, found / at[-1])
    return line


@dataclass(frozen=True, slots=True)
class Profile:
    """α and β of one machine. rows: what was measured, for the report."""

    alpha: Latency
    betas: Mapping[str, Latency]
    rows: list[harness.Row]

    def beta(self, kind: str, count: int, length: int) -> float:
        """Seconds of the PET operators of a mini-batch."""
        return self.betas[kind](count, length)


def measure(upper: Upper, *, repeats: int, quick: bool = False) -> Profile:
    """Time every point of the grid; medians of the repeats."""
    counts, lengths = (QUICK_COUNTS, QUICK_LENGTHS) if quick else (COUNTS, LENGTHS)
    grid = [(count, length) for count in counts for length in lengths]
    shape, rows = (len(counts), len(lengths)), list[harness.Row]()
    shared = interleaved({point: partial(_shared_seconds, upper, *point) for point in grid}, repeats=repeats)
    alpha = np.array([shared[point].median for point in grid])
    betas = {}
    for kind in KINDS:
        found = interleaved(
            {point: partial(_pet_seconds, upper, kind, *point) for point in grid}, repeats=repeats
        )
        betas[kind] = np.array([found[point].median for point in grid])
    for at, (count, length) in enumerate(grid):
        row: harness.Row = {"queries": count, "tokens": length, "shared ms": 1000 * float(alpha[at])}
        rows.append(row | {f"{kind} ms": 1000 * float(beta[at]) for kind, beta in betas.items()})
    return Profile(
        Latency.of(counts, lengths, alpha.reshape(shape)),
        {kind: Latency.of(counts, lengths, beta.reshape(shape)) for kind, beta in betas.items()},
        rows,
    )


def _shared_seconds(upper: Upper, count: int, length: int, _: int) -> float:
    return upper.padded_seconds(count, length)


def _pet_seconds(upper: Upper, kind: str, count: int, length: int, _: int) -> float:
    return upper.pet_seconds(kind, count, length)
