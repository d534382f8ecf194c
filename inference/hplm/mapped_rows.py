"""The rows of a table in a memory-mapped file, in and out of the operating system's page cache."""

import mmap
import resource
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

READ_AHEAD_LOOKUPS: Final = 64
"""How many look-ups are read ahead after one that had to wait for the disk."""


class MappedRows:
    """A file of rows [R] of one dtype, read-only, of which memory holds what the page cache has room for.

    Rows are looked up in no order. So the system reads no neighbours of a missing row by default: they would
    push out rows that are needed. advice: another `mmap.MADV_*`.
    """

    def __init__(self, path: Path, dtype: np.dtype[np.void], *, advice: int = mmap.MADV_RANDOM) -> None:
        with path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        self._map.madvise(advice)
        self.rows: NDArray[np.void] = np.frombuffer(self._map, dtype=dtype)
        self._faults = -1
        self._left = 0

    def prepare_lookup(self, at: NDArray[np.int64]) -> None:
        """`read_ahead`, while rows come from the disk. Asking for rows that memory holds would cost as much
        as reading them, so it ends when so many look-ups have caused no major page fault of the process."""
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_majflt
        if faults != self._faults:
            self._faults, self._left = faults, READ_AHEAD_LOOKUPS
        if self._left > 0:
            self._left -= 1
            self.read_ahead(at)

    def read_ahead(self, at: NDArray[np.int64]) -> None:
        """Have the system read the pages of rows ``at`` [k], all at the same time, without waiting for it.
        Whoever reads them one after the other would wait for the disk once for each."""
        size, page = self.rows.dtype.itemsize, mmap.PAGESIZE
        pages = np.unique(np.concatenate([at * size // page, ((at + 1) * size - 1) // page]))
        firsts = np.flatnonzero(np.diff(pages, prepend=-2) > 1)
        counts = np.diff(firsts, append=len(pages))
        for first, count in zip(pages[firsts].tolist(), counts.tolist(), strict=True):
            self._map.madvise(mmap.MADV_WILLNEED, first * page, count * page)
