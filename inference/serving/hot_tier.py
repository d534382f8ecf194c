"""What of the tables lies on the device, within one budget for everything that does."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import torch

from inference.engine.batcher import BatchLimits
from inference.hplm.plot import PlotTable
from inference.hplm.root_config import RootConfig
from inference.hplm.row_cache import RowCache

log = logging.getLogger(__name__)

FREE_SHARE: Final = 0.9
HARDLY: Final = 0.1
"""A change of a table's share by less than this share of it is not worth beginning anew."""


class HotTier:
    """The rows asked for most of all tables that are served, each table's share of ``budget_bytes`` in
    proportion to its size."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._hot: dict[str, RowCache] = {}

    @property
    def bytes(self) -> int:
        """What the tier takes of the device."""
        return sum(hot.bytes for hot in self._hot.values())

    def follow(self, tables: Mapping[str, PlotTable], budget_bytes: int) -> None:
        """Hold rows of these tables, by digest, and of no others. A table whose share changes by less than a
        tenth keeps what it has, so the budget may be exceeded by as much. What changes is not used until it
        is done; one thread at a time may ask for this, while others use the rest."""
        row_bytes = {digest: 2 * table.n * table.hidden for digest, table in tables.items()}
        wanted = sum(len(table) * row_bytes[digest] for digest, table in tables.items())
        share = min(1.0, budget_bytes / wanted) if wanted else 0.0
        capacity = {digest: int(share * len(table)) for digest, table in tables.items()}
        before = self.bytes
        kept = {digest for digest, hot in self._hot.items() if _hardly_differs(hot, capacity.get(digest))}
        changing = {digest: hot for digest, hot in self._hot.items() if digest in tables.keys() - kept}
        self._hot = {digest: hot for digest, hot in self._hot.items() if digest in kept}
        growth = {
            digest: capacity[digest] - (changing[digest].capacity if digest in changing else 0)
            for digest in tables.keys() - kept
        }
        try:
            for digest in sorted(growth, key=growth.__getitem__):  # what is given up is free for the others
                if hot := changing.pop(digest, None):
                    hot.resize(capacity[digest])
                self._hot = {
                    **self._hot,
                    digest: hot or RowCache(tables[digest], capacity[digest], self._device),
                }
        except torch.OutOfMemoryError as error:
            log.warning("no rows of tables are kept on the device: %s", error)
            self._hot = {}
        if self.bytes != before:
            log.info("%d MiB of %d tables lie on the device", self.bytes >> 20, len(self._hot))

    def of(self, digests: Sequence[str]) -> tuple[RowCache, ...]:
        """The tiers of a chain's tables; none where there is no room for anything."""
        now = self._hot
        hot = tuple(now[digest] for digest in digests if digest in now)
        return hot if len(hot) == len(digests) and any(some.capacity for some in hot) else ()


def _hardly_differs(hot: RowCache, capacity: int | None) -> bool:
    return capacity is not None and abs(hot.capacity - capacity) <= HARDLY * hot.capacity


def left_for_rows(
    total_bytes: int,
    roots: Iterable[RootConfig],
    *,
    limits: BatchLimits,
    lower_bytes: int,
    pet_bytes: int,
    number_bytes: int,
) -> int:
    """Bytes of the device that are left for rows of tables.

    Of ``total_bytes``, what is free beside the upper layers, come off: the lower layers' ``lower_bytes``, the
    PETs' ``pet_bytes``, and the activations of the largest batch, with numbers of ``number_bytes``. The
    batch of one root is computed at a time.
    """
    taken = max((_batch_bytes(config, limits, number_bytes) for config in roots), default=0)
    return max(0, total_bytes - lower_bytes - pet_bytes - taken)


def free_bytes(device: torch.device) -> int:
    """What this process may still take of a device's memory; nothing of a CPU's, where rows are as near in
    the mapped files."""
    if device.type != "cuda":
        return 0
    return int(FREE_SHARE * torch.cuda.mem_get_info(device)[0])


def _batch_bytes(config: RootConfig, limits: BatchLimits, number_bytes: int) -> int:
    shape = config.architecture
    tokens = max(limits.tokens, config.max_tokens)
    # A layer's input, queries, keys, values, result and sum; the inner states twice; the scores of attention
    # where a backend writes them down.
    activations = tokens * (6 * shape.hidden + 2 * shape.inner + shape.heads * config.max_tokens)
    return number_bytes * activations
