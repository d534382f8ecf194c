"""Causal attention of one step over a paged key-value cache (vLLM, section 4.3)."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

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

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
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
            group.attend(query, keys, values, mixed)
        return mixed


class _Group(Protocol):
    """Chunks that are computed together."""

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, mixed: Tensor) -> None:
        """Write the mixed values of the group's queries. query and mixed: [T, heads, d]; keys and values of
        the layer: [blocks, block_size, kv_heads, d]."""


@dataclass(frozen=True, eq=False)
class _Decodes:
    """Chunks of one token, at rows [B] of the step and positions [B] of their sequences, with blocks
    [B * n]."""

    cache: KvCache
    rows: Uploaded
    positions: Uploaded
    blocks: Uploaded

    @cached_property
    def mask(self) -> Tensor:
        """[B, 1, 1, keys], which is added to the scores."""
        count, blocks = len(self.rows.tensor), len(self.blocks.tensor)
        return _mask(self.cache, self.positions.tensor, blocks // count)[:, None, None]

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, mixed: Tensor) -> None:
        # The heads that share a key-value head attend to the same tokens: they are queries of one product.
        rows, blocks = self.rows.tensor, self.blocks.tensor
        count, kv_heads, size = len(rows), *keys.shape[2:]
        own = query.index_select(0, rows).view(count, kv_heads, -1, size)
        key, value = (
            stored.index_select(0, blocks).view(count, -1, kv_heads, size).transpose(1, 2)
            for stored in (keys, values)
        )
        mixed.index_copy_(0, rows, _attention(own, key, value, self.mask).flatten(1, 2))


@dataclass(frozen=True, eq=False)
class _Prefill:
    """A chunk of several tokens, at rows of the step and positions from `start` of a sequence with blocks
    [n]."""

    cache: KvCache
    rows: slice
    start: int
    blocks: Uploaded

    @cached_property
    def mask(self) -> Tensor:
        """[tokens, keys], which is added to the scores."""
        blocks, end = self.blocks.tensor, self.start + _padded(self.rows.stop - self.rows.start)
        return _mask(self.cache, torch.arange(self.start, end, device=blocks.device), len(blocks))

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, mixed: Tensor) -> None:
        kv_heads, size = keys.shape[2:]
        own = query[self.rows]
        own = own.reshape(len(own), kv_heads, -1, size).permute(1, 2, 0, 3)
        key, value = (
            stored.index_select(0, self.blocks.tensor).view(-1, kv_heads, 1, size).permute(1, 2, 0, 3)
            for stored in (keys, values)
        )
        key, value = (states.expand(-1, own.shape[1], -1, -1) for states in (key, value))
        mixed[self.rows] = _attention(own, key, value, self.mask).permute(2, 0, 1, 3).flatten(1, 2)


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
            groups.append(_Prefill(cache, rows, chunk.start, upload.add(table)))
        row += chunk.count
    return groups + [_decodes(cache, rows, blocks, upload) for blocks, rows in decodes.items()]


def _decodes(cache: KvCache, chunks: Sequence[tuple[int, Chunk]], blocks: int, upload: Upload) -> _Decodes:
    rows = np.array([row for row, _ in chunks], np.int64)
    positions = np.array([chunk.start for _, chunk in chunks], np.int64)
    tables = np.array([chunk.block_table[:blocks] for _, chunk in chunks], np.int64)
    return _Decodes(cache, upload.add(rows), upload.add(positions), upload.add(tables.reshape(-1)))


def _mask(cache: KvCache, positions: Tensor, blocks: int) -> Tensor:
    """What is added to the scores [queries, keys] of queries at these positions: minus infinity for keys at
    later positions."""
    keys = torch.arange(blocks * cache.block_size, device=positions.device)
    behind = keys > positions[:, None]
    mask = torch.zeros(behind.shape, dtype=cache.blocks.dtype, device=positions.device)
    return mask.masked_fill_(behind, -torch.inf)


def _attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """Mixed values of queries [B, heads, queries, d], whose number is padded for the kernel."""
    queries = query.shape[2]
    padded = functional.pad(query, (0, 0, 0, _padded(queries) - queries))
    return functional.scaled_dot_product_attention(padded, key, value, attn_mask=mask)[:, :, :queries]


def _padded(queries: int) -> int:
    return -(-queries // QUERY_MULTIPLE) * QUERY_MULTIPLE
