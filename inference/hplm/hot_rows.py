"""The rows of a table that are asked for most, kept on the device."""

from threading import Lock
from typing import Final
from weakref import WeakSet

import numpy as np
import torch
from numpy.typing import NDArray

from inference.hplm.row_gather import Resident, Rows

RENEWED_EVERY: Final = 32
"""Lookups between two exchanges of rows."""
EXCHANGED: Final = 1 / 16
"""At most this share of the slots gets other rows in one exchange."""
LEAST_COUNT: Final = 2
ROWS_AT_ONCE: Final = 1 << 14


class HotRows:
    """Up to ``capacity`` rows of one table in fp16 on ``device``: all of them where they fit, else those that
    were asked for most of late.

    What was named to a batch stays as it is while the batch is under way: a slot is given up at one exchange
    and filled anew at a later one, when nobody holds what was named before. Safe between the thread that asks
    and the one that changes the capacity.
    """

    def __init__(self, table: Rows, capacity: int, device: torch.device) -> None:
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

    def find(self, at: NDArray[np.int64]) -> Resident:
        """Which of the different rows ``at`` [k] are here; counts them."""
        with self._lock:
            if self.capacity == len(self._table):
                return Resident(np.ones(len(at), dtype=np.bool_), at, self._rows)
            slots = self._slot_of[at]
            here = slots >= 0
            named = Resident(here, slots[here].astype(np.int64), self._rows)
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
        self._named = WeakSet[Resident]()
        self._named_before = WeakSet[Resident]()
        self._until_renewal = RENEWED_EVERY
        if capacity == count:
            self._fill(self._free, np.arange(count))

    def _renew(self) -> None:
        """Fill the slots that were given up last time, and give up those asked for less than what is left
        outside."""
        outside = np.flatnonzero((self._slot_of < 0) & (self._counts >= LEAST_COUNT))
        outside = outside[np.argsort(self._counts[outside], kind="stable")[::-1]]
        entering, left = np.split(outside, [len(self._free)])
        slots, self._free = np.split(self._free, [len(entering)])
        self._fill(slots, entering)
        self._slot_of[entering] = slots
        self._free = np.concatenate([self._free, self._give_up(left)])
        self._named_before, self._named = self._named, WeakSet()
        self._counts >>= 1
        self._until_renewal = RENEWED_EVERY

    def _give_up(self, better: NDArray[np.int64]) -> NDArray[np.int64]:
        """The slots whose rows were asked for less than one of those rows each, which could have them."""
        taken = np.flatnonzero(self._row_of >= 0)
        most = min(len(better), int(np.ceil(EXCHANGED * self.capacity)), len(taken))
        coldest = taken[np.argsort(self._counts[self._row_of[taken]], kind="stable")[:most]]
        given = coldest[self._counts[self._row_of[coldest]] < self._counts[better[:most]]]
        self._slot_of[self._row_of[given]] = -1
        self._row_of[given] = -1
        return given

    def _fill(self, slots: NDArray[np.int64], at: NDArray[np.int64]) -> None:
        """Copy rows of the table into slots."""
        for start in range(0, len(at), ROWS_AT_ONCE):
            some = slice(start, start + ROWS_AT_ONCE)
            read = np.empty((len(at[some]), self._table.n, self._table.hidden), dtype=np.float16)
            self._table.read(at[some], read)
            self._rows[torch.from_numpy(slots[some]).to(self._device)] = torch.from_numpy(read).to(
                self._device
            )
        self._row_of[slots] = at
