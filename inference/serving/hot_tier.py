"""Rows of tables on the device, within one budget."""

import logging
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Final

import torch

from inference.hplm.plot import PlotTable
from inference.hplm.row_cache import RowCache

log = logging.getLogger(__name__)

HARDLY: Final = 0.1
"""A change of a table's share by less than this share of it is not worth beginning anew."""


class HotTier:
    """The most requested rows of all tables that are served, each table's share of ``budget_bytes`` in
    proportion to its size. Thread-safe, but one thread at a time may `follow`."""

    def __init__(self, device: torch.device, budget_bytes: int = 0) -> None:
        self.budget_bytes = budget_bytes
        self._device = device
        self._lock = Lock()
        self._tables: Mapping[str, PlotTable] = {}
        self._hot: dict[str, RowCache] = {}

    @property
    def bytes(self) -> int:
        """What the tier takes of the device."""
        return sum(hot.bytes for hot in self._hot.values())

    def resize(self, budget_bytes: int) -> None:
        """Change the budget. What is beyond it is given back at once; what it holds more comes with the next
        `follow`."""
        with self._lock:
            self.budget_bytes = budget_bytes
            if self.bytes > budget_bytes:
                self._share_out()

    def follow(self, tables: Mapping[str, PlotTable]) -> None:
        """Hold rows of these tables, by digest, and of no others. A table whose share changes by less than a
        tenth keeps what it has. What changes is used as it arrives."""
        with self._lock:
            self._tables = tables
            before = self.bytes
            self._share_out()
            if self.bytes != before:
                log.info("%d MiB of %d tables lie on the device", self.bytes >> 20, len(self._hot))
        try:
            for hot in self._hot.values():
                hot.fill()
        except torch.OutOfMemoryError as error:
            self._drop(error)

    def _share_out(self) -> None:
        capacity = self._capacities()
        kept = {digest for digest, hot in self._hot.items() if _hardly_differs(hot, capacity.get(digest))}
        changing = {digest: hot for digest, hot in self._hot.items() if digest in capacity.keys() - kept}
        self._hot = {digest: hot for digest, hot in self._hot.items() if digest in kept}
        growth = {
            digest: capacity[digest] - (changing[digest].capacity if digest in changing else 0)
            for digest in capacity.keys() - kept
        }
        try:
            for digest in sorted(growth, key=growth.__getitem__):  # what is given up is free for the others
                if hot := changing.pop(digest, None):
                    hot.resize(capacity[digest])
                hot = hot or RowCache(self._tables[digest], capacity[digest], self._device)
                self._hot = {**self._hot, digest: hot}
        except torch.OutOfMemoryError as error:
            self._drop(error)

    def _capacities(self) -> dict[str, int]:
        """The rows of each table. Where not all fit, a tenth of the budget is left for tables that keep what
        they have although their share is smaller now: so they never exceed the budget."""
        row_bytes = {digest: 2 * table.n * table.hidden for digest, table in self._tables.items()}
        wanted = sum(len(table) * row_bytes[digest] for digest, table in self._tables.items())
        if wanted <= self.budget_bytes:
            return {digest: len(table) for digest, table in self._tables.items()}
        share = (1 - HARDLY) * self.budget_bytes / wanted
        return {digest: int(share * len(table)) for digest, table in self._tables.items()}

    def _drop(self, error: Exception) -> None:
        log.warning("no rows of tables are kept on the device: %s", error)
        self._hot = {}

    def of(self, digests: Sequence[str]) -> tuple[RowCache, ...]:
        """The tiers of a chain's tables; none where there is no room for anything."""
        now = self._hot
        hot = tuple(now[digest] for digest in digests if digest in now)
        return hot if len(hot) == len(digests) and any(some.capacity for some in hot) else ()


def _hardly_differs(hot: RowCache, capacity: int | None) -> bool:
    return capacity is not None and abs(hot.capacity - capacity) <= HARDLY * hot.capacity
