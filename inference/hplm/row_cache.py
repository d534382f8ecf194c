"""Gathers the table rows of a batch from memory-mapped files, and caches rows on the device."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Final, Protocol
from weakref import WeakSet

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class RowSource(Protocol):
    """A table whose rows can be read, such as `PlotTable`."""

    n: int
    hidden: int

    def __len__(self) -> int: ...

    def read(self, at: NDArray[np.int64], out: NDArray[np.float16]) -> None:
        """Write the vectors [k, n, d] of rows ``at`` [k] to ``out``."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class CachedRows:
    """Which of k requested rows are cached.

    cached [k] bool. slots [h] int64: the slots of those rows in ``rows`` [H, n, d] float16, on the device.
    They keep their content while this object exists.
    """

    cached: NDArray[np.bool_]
    slots: NDArray[np.int64]
    rows: Tensor


class DeviceRows(Protocol):
    """The rows of one table that are on the device, such as `RowCache`."""

    def find(self, at: NDArray[np.int64]) -> CachedRows:
        """Which of the distinct rows ``at`` [k] are on the device."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Where a chain has U distinct fragments.

    table [U] uint8: the index of the table in the chain. row [U] int64: the row of that table. level [U]
    uint8: HIT_EXACT, HIT_SHORTER or HIT_UNIGRAM. inverse [N] int64: the distinct fragment of each of the N
    requested ones.
    """

    table: NDArray[np.uint8]
    row: NDArray[np.int64]
    level: NDArray[np.uint8]
    inverse: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class GatheredRows:
    """The rows of U distinct fragments: ``copied`` ones on the CPU, followed by those cached on the device.

    rows [copied + spare, n, d] float16: the copied rows, in the buffer from row number ``begin`` on.
    resident: the cached rows, a table after the other. position [U] int64: the position of each fragment
    among the copied and cached rows.
    """

    rows: Tensor
    copied: int
    resident: list[CachedRows]
    position: NDArray[np.int64]
    begin: int = 0

    def __len__(self) -> int:
        """The number of copied and cached rows."""
        return len(self.position)


@dataclass(frozen=True, slots=True, eq=False)
class RowsToGather:
    """What `gather_all` gathers: the rows ``at`` of each of the tables, into a buffer with room for ``spare``
    more. resident and position are those of `GatheredRows`."""

    tables: Sequence[RowSource]
    at: Sequence[NDArray[np.int64]]
    resident: list[CachedRows]
    position: NDArray[np.int64]
    spare: int = 0

    @property
    def copied(self) -> int:
        """The number of rows to copy."""
        return sum(map(len, self.at))

    def read(self, out: NDArray[np.float16]) -> None:
        """Copy the rows from the mapped files to the beginning of ``out``."""
        start = 0
        for table, at in zip(self.tables, self.at, strict=True):
            table.read(at, out[start : start + len(at)])
            start += len(at)


def rows_to_gather(
    tables: Sequence[RowSource], found: SearchResult, caches: Sequence[DeviceRows] = (), *, spare: int = 0
) -> RowsToGather:
    """The found rows that are not in ``caches`` (one for each table, or none)."""
    ats = [np.flatnonzero(found.table == number) for number in range(len(tables))]
    resident = [cache.find(found.row[at]) for cache, at in zip(caches, ats, strict=True)] if caches else []
    misses = [at[~rows.cached] for at, rows in zip(ats, resident, strict=True)] if caches else ats
    hits = [at[rows.cached] for at, rows in zip(ats, resident, strict=True)] if caches else []
    position = np.empty(len(found.row), dtype=np.int64)
    position[np.concatenate([*misses, *hits])] = np.arange(len(position))
    kept = [cached for cached in resident if len(cached.slots)]
    return RowsToGather(tables, [found.row[at] for at in misses], kept, position, spare)


def gather_all(wanted: Sequence[RowsToGather], *, pinned: bool = False) -> tuple[Tensor, list[GatheredRows]]:
    """Copy rows of tables of one shape from the mapped files into one buffer, which goes to a device at once.
    Returns it and what lies in it."""
    sizes = [each.copied + each.spare for each in wanted]
    shape = (sum(sizes), wanted[0].tables[0].n, wanted[0].tables[0].hidden)
    buffer = torch.empty(shape, dtype=torch.float16, pin_memory=pinned)
    begins = np.cumsum([0, *sizes]).tolist()
    gathered = []
    for each, begin, size in zip(wanted, begins, sizes, strict=False):
        rows = buffer[begin : begin + size]
        each.read(rows.numpy())
        gathered.append(GatheredRows(rows, each.copied, each.resident, each.position, begin))
    return buffer, gathered


REFRESH_INTERVAL: Final = 32
"""Lookups between two refreshes."""
MAX_EVICTED_SHARE: Final = 1 / 16
"""At most this share of the slots is evicted in one refresh."""
MIN_COUNT: Final = 2
"""Requests that a row needs to enter the cache."""
PIECE_BYTES: Final = 8 << 20
"""Rows are copied to the device in pieces of this size, so that no lookup waits for many of them."""


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """Rows ``at`` [k] of the table on their way to ``slots`` [k]. copied: an event behind the copy; None:
    they are there."""

    slots: NDArray[np.int64]
    at: NDArray[np.int64]
    copied: torch.cuda.Event | None

    @property
    def is_there(self) -> bool:
        return self.copied is None or bool(self.copied.query())  # type: ignore[no-untyped-call]


class RowCache:
    """Up to ``capacity`` rows of one table, float16 on ``device``: all if they fit (see `fill`), else the
    most requested.

    Request counts decay: they are halved at each refresh. Rows that a running batch uses keep their slots: a
    refresh evicts slots, and a later one fills them, once no `CachedRows` from before the eviction exists.
    Rows are copied in pieces, from pinned memory and on a stream of their own. They are found when they are
    there, so no batch waits for them. One thread may call ``find`` while others call ``fill`` and ``resize``.
    """

    def __init__(self, table: RowSource, capacity: int, device: torch.device) -> None:
        self._table, self._device = table, device
        self._lock = Lock()
        self._filled = 0  # of a table that fits: so many of its first rows are there
        self._resize(capacity)

    @property
    def bytes(self) -> int:
        """Device memory of the slots."""
        return self._rows.nbytes

    @property
    def capacity(self) -> int:
        """The number of slots."""
        return len(self._row_of)

    def resize(self, capacity: int) -> None:
        """Change the number of slots. If that changes anything, the cache starts empty."""
        with self._lock:
            if min(capacity, len(self._table)) != self.capacity:
                self._resize(capacity)

    def fill(self) -> None:
        """Copy all rows of the table if all fit. Lookups find the first ones meanwhile; if the capacity
        changes, the rest is left out."""
        with self._lock:
            rows, start, count = self._rows, self._filled, len(self._table)
            if self.capacity < count:
                return
        for begin in range(start, count, self._piece_rows):
            at = np.arange(begin, min(begin + self._piece_rows, count))
            piece = self._copy(rows, at, at)
            if piece.copied is not None:
                piece.copied.synchronize()
            with self._lock:
                if self._rows is not rows:
                    return
                self._filled = begin + len(at)

    def find(self, at: NDArray[np.int64]) -> CachedRows:
        """Which of the distinct rows ``at`` [k] int64 are cached. Counts the requests."""
        with self._lock:
            if self.capacity == len(self._table):
                cached = at < self._filled
                return CachedRows(cached, at[cached], self._rows)
            self._copy_pieces()
            slots = self._slot_of[at]
            cached = slots >= 0
            found = CachedRows(cached, slots[cached].astype(np.int64), self._rows)
            self._in_use.add(found)
            self._counts[at] += 1
            self._until_refresh -= 1
            if self._until_refresh <= 0 and not self._in_use_before and self._piece is None:
                self._refresh()
            return found

    @property
    def _piece_rows(self) -> int:
        return max(1, PIECE_BYTES // (2 * self._table.n * self._table.hidden))

    def _resize(self, capacity: int) -> None:
        count = len(self._table)
        capacity = min(capacity, count)
        shape = (capacity, self._table.n, self._table.hidden)
        self._rows = torch.empty((0, *shape[1:]), dtype=torch.float16)  # free the old slots before allocating
        self._row_of = np.empty(0, dtype=np.int64)
        self._slot_of = np.full(count, -1, dtype=np.int32)
        self._counts = np.zeros(count, dtype=np.uint32)
        self._free = self._entering = np.arange(0)
        self._piece: _Piece | None = None
        self._filled = 0
        self._in_use = WeakSet[CachedRows]()
        self._in_use_before = WeakSet[CachedRows]()
        self._until_refresh = REFRESH_INTERVAL
        self._rows = torch.empty(shape, dtype=torch.float16, device=self._device)
        self._row_of, self._free = np.full(capacity, -1, dtype=np.int64), np.arange(capacity)
        if capacity == count:  # nothing is chosen, so nothing is counted
            self._slot_of, self._counts = self._slot_of[:0].copy(), self._counts[:0].copy()

    def _refresh(self) -> None:
        """Begin to fill the slots that the last refresh evicted, and evict those requested less than uncached
        rows."""
        uncached = np.flatnonzero((self._slot_of < 0) & (self._counts >= MIN_COUNT))
        uncached = uncached[np.argsort(self._counts[uncached], kind="stable")[::-1]]
        entering, waiting = np.split(uncached, [len(self._free)])
        evicted = self._evict(waiting)
        self._counts >>= 1
        self._in_use_before, self._in_use = self._in_use, WeakSet()
        self._until_refresh = REFRESH_INTERVAL
        self._entering = entering
        self._copy_pieces()
        self._free = np.concatenate([self._free, evicted])

    def _evict(self, waiting: NDArray[np.int64]) -> NDArray[np.int64]:
        """Free the slots of rows that were requested less than one of the waiting rows each. Returns them."""
        taken = np.flatnonzero(self._row_of >= 0)
        limit = min(len(waiting), int(np.ceil(MAX_EVICTED_SHARE * self.capacity)), len(taken))
        coldest = taken[np.argsort(self._counts[self._row_of[taken]], kind="stable")[:limit]]
        evicted = coldest[self._counts[self._row_of[coldest]] < self._counts[waiting[:limit]]]
        self._slot_of[self._row_of[evicted]] = -1
        self._row_of[evicted] = -1
        return evicted

    def _copy_pieces(self) -> None:
        """Name the rows of a piece that is there, and begin the next."""
        while self._piece is not None or len(self._entering):
            if self._piece is None:
                at = self._entering[: self._piece_rows]
                self._piece = self._copy(self._rows, self._free[: len(at)], at)
                self._entering, self._free = self._entering[len(at) :], self._free[len(at) :]
            if not self._piece.is_there:
                return
            self._slot_of[self._piece.at] = self._piece.slots
            self._row_of[self._piece.slots] = self._piece.at
            self._piece = None

    def _copy(self, rows: Tensor, slots: NDArray[np.int64], at: NDArray[np.int64]) -> _Piece:
        """Begin to copy the rows ``at`` of the table into slots of ``rows``."""
        on_gpu = self._device.type == "cuda"
        shape = (len(at), self._table.n, self._table.hidden)
        read = torch.empty(shape, dtype=torch.float16, pin_memory=on_gpu)
        self._table.read(at, read.numpy())
        to = torch.from_numpy(slots)
        if not on_gpu:
            rows.index_copy_(0, to, read)
            return _Piece(slots, at, None)
        stream = _fill_stream(self._device)
        stream.wait_stream(torch.cuda.current_stream(self._device))  # it may still read these slots
        with torch.cuda.stream(stream):
            to = to.pin_memory().to(self._device, non_blocking=True)
            rows.index_copy_(0, to, read.to(self._device, non_blocking=True))
            rows.record_stream(stream)
            return _Piece(slots, at, stream.record_event())


@cache
def _fill_stream(device: torch.device) -> torch.cuda.Stream:
    """One for all tables of a device."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
