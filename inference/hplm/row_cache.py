"""Rows of tables that a batch needs: gathered from mapped files, or taken from a cache on the device."""

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Final, Protocol
from weakref import WeakSet

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class RowSource(Protocol):
    """What a table is read by; see `PlotTable`."""

    n: int
    hidden: int

    def __len__(self) -> int: ...

    def read(self, at: NDArray[np.int64], out: NDArray[np.float16]) -> None:
        """Write the vectors [k, n, d] of rows ``at`` [k] to ``out``."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class CachedRows:
    """Which of the rows asked for are on the device. here [k] bool; slots [h]: of those that are, where they
    lie in ``rows`` [H, n, d], which stays so as long as somebody holds this."""

    here: NDArray[np.bool_]
    slots: NDArray[np.int64]
    rows: Tensor


class Hot(Protocol):
    """The rows of one table that are on the device; see `RowCache`."""

    def find(self, at: NDArray[np.int64]) -> CachedRows:
        """Which of the different rows ``at`` [k] are."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Where a chain holds U different fragments: the place of the table [U] uint8, the row there [U], the
    level [U] uint8 (0 the fragment itself, 1 a shorter part of it, 2 its uni-gram). inverse [N]: which of
    them each of the N fragments asked for is."""

    table: NDArray[np.uint8]
    row: NDArray[np.int64]
    level: NDArray[np.uint8]
    inverse: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class GatheredRows:
    """The rows of U different fragments: first the ``copied`` ones of ``rows`` [copied + spare, n, d] fp16 on
    the host, pinned where that was wanted, then the ``resident`` ones of one table after the other. place
    [U]: where among all of them each lies."""

    rows: Tensor
    copied: int
    resident: list[CachedRows]
    place: NDArray[np.int64]

    def __len__(self) -> int:
        """How many rows there are in all."""
        return len(self.place)


def gather_rows(
    tables: Sequence[RowSource],
    found: SearchResult,
    hot: Sequence[Hot] = (),
    *,
    pinned: bool = False,
    spare: int = 0,
) -> GatheredRows:
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
    return GatheredRows(rows, start, [some for some in resident if len(some.slots)], place)


REFRESH_INTERVAL: Final = 32
"""Lookups between two exchanges of rows."""
MAX_EVICTED_SHARE: Final = 1 / 16
"""At most this share of the slots gets other rows in one exchange."""
MIN_COUNT: Final = 2
COPY_BATCH: Final = 1 << 14


class RowCache:
    """Up to ``capacity`` rows of one table in fp16 on ``device``: all of them where they fit, else those that
    were asked for most of late.

    What was named to a batch stays as it is while the batch is under way: a slot is given up at one exchange
    and filled anew at a later one, when nobody holds what was named before. Safe between the thread that asks
    and the one that changes the capacity.
    """

    def __init__(self, table: RowSource, capacity: int, device: torch.device) -> None:
        self._table, self._device = table, device
        self._lock = Lock()
        self._resize(capacity)

    @property
    def bytes(self) -> int:
        """What its slots take of the device."""
        return self._rows.nbytes

    @property
    def capacity(self) -> int:
        """How many rows it has room for."""
        return len(self._row_of)

    def resize(self, capacity: int) -> None:
        """Have room for so many rows from now on, and begin anew where that changes anything."""
        with self._lock:
            if min(capacity, len(self._table)) != self.capacity:
                self._resize(capacity)

    def find(self, at: NDArray[np.int64]) -> CachedRows:
        """Which of the different rows ``at`` [k] are here; counts them."""
        with self._lock:
            if self.capacity == len(self._table):
                return CachedRows(np.ones(len(at), dtype=np.bool_), at, self._rows)
            slots = self._slot_of[at]
            here = slots >= 0
            named = CachedRows(here, slots[here].astype(np.int64), self._rows)
            self._named.add(named)
            self._counts[at] += 1
            self._until_renewal -= 1
            if self._until_renewal <= 0 and not self._named_before:
                self._renew()
            return named

    def _resize(self, capacity: int) -> None:
        count = len(self._table)
        capacity = min(capacity, count)
        shape = (capacity, self._table.n, self._table.hidden)
        self._rows = torch.empty(0)  # what is given up is free before more is taken
        self._rows = torch.empty(shape, dtype=torch.float16, device=self._device)
        self._row_of = np.full(capacity, -1, dtype=np.int64)
        self._slot_of = np.full(0 if capacity == count else count, -1, dtype=np.int32)
        self._counts = np.zeros(len(self._slot_of), dtype=np.uint32)
        self._free = np.arange(capacity)
        self._named = WeakSet[CachedRows]()
        self._named_before = WeakSet[CachedRows]()
        self._until_renewal = REFRESH_INTERVAL
        if capacity == count:
            self._fill(self._free, np.arange(count))

    def _renew(self) -> None:
        """Fill the slots that were given up last time, and give up those asked for less than what is left
        outside."""
        outside = np.flatnonzero((self._slot_of < 0) & (self._counts >= MIN_COUNT))
        outside = outside[np.argsort(self._counts[outside], kind="stable")[::-1]]
        entering, left = np.split(outside, [len(self._free)])
        slots, self._free = np.split(self._free, [len(entering)])
        self._fill(slots, entering)
        self._slot_of[entering] = slots
        self._free = np.concatenate([self._free, self._give_up(left)])
        self._named_before, self._named = self._named, WeakSet()
        self._counts >>= 1
        self._until_renewal = REFRESH_INTERVAL

    def _give_up(self, better: NDArray[np.int64]) -> NDArray[np.int64]:
        """The slots whose rows were asked for less than one of those rows each, which could have them."""
        taken = np.flatnonzero(self._row_of >= 0)
        most = min(len(better), int(np.ceil(MAX_EVICTED_SHARE * self.capacity)), len(taken))
        coldest = taken[np.argsort(self._counts[self._row_of[taken]], kind="stable")[:most]]
        given = coldest[self._counts[self._row_of[coldest]] < self._counts[better[:most]]]
        self._slot_of[self._row_of[given]] = -1
        self._row_of[given] = -1
        return given

    def _fill(self, slots: NDArray[np.int64], at: NDArray[np.int64]) -> None:
        """Copy rows of the table into slots."""
        for start in range(0, len(at), COPY_BATCH):
            some = slice(start, start + COPY_BATCH)
            read = np.empty((len(at[some]), self._table.n, self._table.hidden), dtype=np.float16)
            self._table.read(at[some], read)
            self._rows[torch.from_numpy(slots[some]).to(self._device)] = torch.from_numpy(read).to(
                self._device
            )
        self._row_of[slots] = at
