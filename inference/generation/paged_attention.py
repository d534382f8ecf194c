"""Causal attention of one step over a paged key-value cache (vLLM, section 4.3)."""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from inference.generation.kv_cache import KvCache
from inference.generation.step import Chunk
from inference.hplm.upload import Upload, Uploaded

QUERY_MULTIPLE: Final = 8
"""The CPU kernel gives each thread a buffer whose size follows from the numbers of queries and keys. Where
the queries are a multiple of this, all buffers are aligned alike. Else the last bits depend on the thread."""


class PagedAttention:
    """The `Attention` of one step: writes its keys and values into their blocks, then attends to those of the
    same sequence up to the query's position.

    Chunks of one token whose sequences fill equally many blocks are computed together, others one by one. So
    what a sequence gets does not depend on the other sequences of the step.
    """

    def __init__(self, cache: KvCache, chunks: Sequence[Chunk], upload: Upload | None = None) -> None:
        """upload: what the step copies to the cache's device; None: an own one."""
        self._cache = cache
        upload = upload or Upload(cache.blocks.device)
        slots = np.concatenate([cache.slots(chunk.block_table, chunk.start, chunk.count) for chunk in chunks])
        begun = slots[slots % cache.block_size == 0] // cache.block_size
        self._slots = upload.add(slots)
        self._begun = upload.add(begun) if len(begun) else None
        self._groups = _groups(cache, chunks, upload)

    def __call__(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, window: int | None = None
    ) -> Tensor:
        """Mixed values [T, heads, d] of the queries [T, heads, d] of all chunks, one after another. key and
        value: [T, kv_heads, d]."""
        if self._begun is not None:
            self._cache.clear(self._begun.tensor)
            self._begun = None
        keys, values = self._cache.layer(layer)
        for stored, new in ((keys, key), (values, value)):
            stored.flatten(0, 1).index_copy_(0, self._slots.tensor, new)
        mixed = torch.empty_like(query)
        for group in self._groups:
            group.attend(query, keys, values, mixed, window)
        return mixed


@dataclass(frozen=True, slots=True)
class _Seen:
    """What queries attend to: blocks of their sequences, and what is added to the scores."""

    blocks: Tensor
    mask: Tensor


@dataclass(frozen=True, eq=False)
class _Group(ABC):
    """Chunks that are computed together, and the blocks of their sequences, one sequence after another."""

    cache: KvCache
    blocks: Uploaded
    _seen: dict[int | None, _Seen] = field(default_factory=dict, init=False)

    def seen(self, window: int | None) -> _Seen:
        """What the queries attend to with that window. Layers share it."""
        if window not in self._seen:
            self._seen[window] = self._see(window)
        return self._seen[window]

    @abstractmethod
    def _see(self, window: int | None) -> _Seen: ...

    @abstractmethod
    def attend(self, query: Tensor, keys: Tensor, values: Tensor, mixed: Tensor, window: int | None) -> None:
        """Write the mixed values of the group's queries. query and mixed: [T, heads, d]; keys and values of
        the layer: [blocks, block_size, kv_heads, d]."""


@dataclass(frozen=True, eq=False, kw_only=True)
class _Decodes(_Group):
    """Chunks of one token, at rows [B] of the step and positions [B] of their sequences, with blocks
    [B * n]."""

    rows: Uploaded
    positions: Uploaded

    def _see(self, window: int | None) -> _Seen:
        tables = self.blocks.tensor.view(len(self.rows.tensor), -1)
        count = tables.shape[1]
        first = _first_block(self.cache, (count - 1) * self.cache.block_size, window)
        mask = _mask(self.cache, self.positions.tensor, range(first, count), window)
        return _Seen(tables[:, first:].flatten(), mask[:, None, None])

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, mixed: Tensor, window: int | None) -> None:
        # The heads that share a key-value head attend to the same tokens: they are queries of one product.
        rows, seen = self.rows.tensor, self.seen(window)
        count, kv_heads, size = len(rows), *keys.shape[2:]
        own = query.index_select(0, rows).view(count, kv_heads, -1, size)
        key, value = (
            stored.index_select(0, seen.blocks).view(count, -1, kv_heads, size).transpose(1, 2)
            for stored in (keys, values)
        )
        mixed.index_copy_(0, rows, _attention(own, key, value, seen.mask).flatten(1, 2))


@dataclass(frozen=True, eq=False, kw_only=True)
class _Prefill(_Group):
    """A chunk of several tokens, at rows of the step and positions from `start` of a sequence with blocks
    [n]."""

    rows: slice
    start: int

    def _see(self, window: int | None) -> _Seen:
        blocks, end = self.blocks.tensor, self.start + _padded(self.rows.stop - self.rows.start)
        first = _first_block(self.cache, self.start, window)
        positions = torch.arange(self.start, end, device=blocks.device)
        mask = _mask(self.cache, positions, range(first, len(blocks)), window)
        return _Seen(blocks[first:], mask)

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, mixed: Tensor, window: int | None) -> None:
        kv_heads, size = keys.shape[2:]
        own, seen = query[self.rows], self.seen(window)
        own = own.reshape(len(own), kv_heads, -1, size).permute(1, 2, 0, 3)
        key, value = (
            stored.index_select(0, seen.blocks).view(-1, kv_heads, 1, size).permute(1, 2, 0, 3)
            for stored in (keys, values)
        )
        key, value = (states.expand(-1, own.shape[1], -1, -1) for states in (key, value))
        mixed[self.rows] = _attention(own, key, value, seen.mask).permute(2, 0, 1, 3).flatten(1, 2)


def _groups(cache: KvCache, chunks: Sequence[Chunk], upload: Upload) -> list[_Group]:
    """The chunks, in the order in which they are computed."""
    groups: list[_Group] = []
    decodes = defaultdict[int, list[tuple[int, Chunk]]](list)
    row = 0
    for chunk in chunks:
        blocks = -(-(chunk.start + chunk.count) // cache.block_size)
        if chunk.count == 1:
            decodes[blocks].append((row, chunk))
        else:
            rows, table = slice(row, row + chunk.count), np.asarray(chunk.block_table[:blocks], np.int64)
            groups.append(_Prefill(cache, upload.add(table), rows=rows, start=chunk.start))
        row += chunk.count
    return groups + [_decodes(cache, rows, blocks, upload) for blocks, rows in decodes.items()]


def _decodes(cache: KvCache, chunks: Sequence[tuple[int, Chunk]], blocks: int, upload: Upload) -> _Decodes:
    rows = np.array([row for row, _ in chunks], np.int64)
    positions = np.array([chunk.start for _, chunk in chunks], np.int64)
    tables = np.array([chunk.block_table[:blocks] for _, chunk in chunks], np.int64)
    return _Decodes(
        cache, upload.add(tables.reshape(-1)), rows=upload.add(rows), positions=upload.add(positions)
    )


def _first_block(cache: KvCache, position: int, window: int | None) -> int:
    """The first block of a sequence that a query at this position or a later one attends to."""
    return 0 if window is None else max(0, position - window + 1) // cache.block_size


def _mask(cache: KvCache, positions: Tensor, blocks: range, window: int | None) -> Tensor:
    """What is added to the scores [queries, keys] of queries at these positions and keys in these blocks:
    minus infinity for keys at later positions and before the window."""
    begin, end = blocks.start * cache.block_size, blocks.stop * cache.block_size
    keys, queries = torch.arange(begin, end, device=positions.device), positions[:, None]
    hidden = keys > queries
    if window is not None:
        hidden |= keys <= queries - window
    mask = torch.zeros(hidden.shape, dtype=cache.blocks.dtype, device=positions.device)
    return mask.masked_fill_(hidden, -torch.inf)


def _attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """Mixed values of queries [B, heads, queries, d], whose number is padded for the kernel."""
    queries = query.shape[2]
    padded = functional.pad(query, (0, 0, 0, _padded(queries) - queries))
    return functional.scaled_dot_product_attention(padded, key, value, attn_mask=mask)[:, :, :queries]


def _padded(queries: int) -> int:
    return -(-queries // QUERY_MULTIPLE) * QUERY_MULTIPLE
