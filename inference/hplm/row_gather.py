"""The rows of tables that a batch needs, each once: those on the device are named, the others copied."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class Rows(Protocol):
    """What a table is read by; see `PlotTable`."""

    n: int
    hidden: int

    def __len__(self) -> int: ...

    def read(self, at: NDArray[np.int64], out: NDArray[np.float16]) -> None:
        """Write the vectors [k, n, d] of rows ``at`` [k] to ``out``."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Resident:
    """Which of the rows asked for are on the device. here [k] bool; slots [h]: of those that are, where they
    lie in ``rows`` [H, n, d], which stays so as long as somebody holds this."""

    here: NDArray[np.bool_]
    slots: NDArray[np.int64]
    rows: Tensor


class Hot(Protocol):
    """The rows of one table that are on the device; see `HotRows`."""

    def find(self, at: NDArray[np.int64]) -> Resident:
        """Which of the different rows ``at`` [k] are."""


@dataclass(frozen=True, slots=True)
class Found:
    """Where a chain holds U different fragments: the place of the table [U] uint8, the row there [U], the
    level [U] uint8 (0 the fragment itself, 1 a shorter part of it, 2 its uni-gram). inverse [N]: which of
    them each of the N fragments asked for is."""

    table: NDArray[np.uint8]
    row: NDArray[np.int64]
    level: NDArray[np.uint8]
    inverse: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Gathered:
    """The rows of U different fragments: first the ``copied`` ones of ``rows`` [copied + spare, n, d] fp16 on
    the host, pinned where that was wanted, then the ``resident`` ones of one table after the other. place
    [U]: where among all of them each lies."""

    rows: Tensor
    copied: int
    resident: list[Resident]
    place: NDArray[np.int64]

    def __len__(self) -> int:
        """How many rows there are in all."""
        return len(self.place)


def gathered(
    tables: Sequence[Rows],
    found: Found,
    hot: Sequence[Hot] = (),
    *,
    pinned: bool = False,
    spare: int = 0,
) -> Gathered:
    """Copy the rows that were found straight from the mapped files into one buffer with room for ``spare``
    more, except those that are among ``hot``, one for each table or none at all."""
    ats = [np.flatnonzero(found.table == number) for number in range(len(tables))]
    resident = [some.find(found.row[at]) for some, at in zip(hot, ats, strict=True)] if hot else []
    cold = [at[~some.here] for at, some in zip(ats, resident, strict=True)] if hot else ats
    warm = [at[some.here] for at, some in zip(ats, resident, strict=True)] if hot else []
    place = np.empty(len(found.row), dtype=np.int64)
    place[np.concatenate([*cold, *warm])] = np.arange(len(place))
    shape = (sum(map(len, cold)) + spare, tables[0].n, tables[0].hidden)
    rows = torch.empty(shape, dtype=torch.float16, pin_memory=pinned)
    start, buffer = 0, rows.numpy()
    for table, at in zip(tables, cold, strict=True):
        table.read(found.row[at], buffer[start : start + len(at)])
        start += len(at)
    return Gathered(rows, start, [some for some in resident if len(some.slots)], place)
