"""Causal attention of one step over a paged key-value cache (vLLM, section 4.3)."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from inference.generation.kv_cache import KvCache
from inference.generation.step import Chunk

QUERY_MULTIPLE: Final = 8
"""The CPU kernel gives each thread a buffer whose size follows from the numbers of queries and keys. Where
the queries are a multiple of this, all buffers are aligned alike. Else the last bits depend on the thread."""


class PagedAttention:
    """The `Attention` of one step: writes its keys and values into their blocks, then attends to those of the
    same sequence up to the query's position.

    Chunks of one token whose sequences fill equally many blocks are computed together, others one by one. So
    what a sequence gets does not depend on the other sequences of the step.
    """

    def __init__(self, cache: KvCache, chunks: Sequence[Chunk]) -> None:
        self._cache = cache
        slots = np.concatenate([cache.slots(chunk.block_table, chunk.start, chunk.count) for chunk in chunks])
        cache.clear((slots[slots % cache.block_size == 0] // cache.block_size).tolist())
        self._slots = torch.from_numpy(slots).to(cache.blocks.device)
        self._groups = _groups(cache, chunks)

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Mixed values [T, heads, d] of the queries [T, heads, d] of all chunks, one after another. key and
        value: [T, kv_heads, d]."""
        keys, values = self._cache.layer(layer)
        for stored, new in ((keys, key), (values, value)):
            stored.flatten(0, 1).index_copy_(0, self._slots, new)
        mixed = torch.empty_like(query)
        for group in self._groups:
            group.attend(query, keys, values, mixed)
        return mixed


class _Group(Protocol):
    """Chunks that are computed together."""

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, mixed: Tensor) -> None:
        """Write the mixed values of the group's queries. query and mixed: [T, heads, d]; keys and values of
        the layer: [blocks, block_size, kv_heads, d]."""


@dataclass(frozen=True, slots=True, eq=False)
class _Decodes:
    """Chunks of one token, at rows [B] of the step, of sequences with blocks [B * n]. mask [B, 1, 1, keys] is
    added to their scores."""

    rows: Tensor
    blocks: Tensor
    mask: Tensor

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, mixed: Tensor) -> None:
        # The heads that share a key-value head attend to the same tokens: they are queries of one product.
        count, kv_heads, size = len(self.rows), *keys.shape[2:]
        own = query.index_select(0, self.rows).view(count, kv_heads, -1, size)
        key, value = (
            stored.index_select(0, self.blocks).view(count, -1, kv_heads, size).transpose(1, 2)
            for stored in (keys, values)
        )
        mixed.index_copy_(0, self.rows, _attention(own, key, value, self.mask).flatten(1, 2))


@dataclass(frozen=True, slots=True, eq=False)
class _Prefill:
    """A chunk of several tokens, at rows of the step, of a sequence with blocks [n]. mask [tokens, keys] is
    added to their scores."""

    rows: slice
    blocks: Tensor
    mask: Tensor

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, mixed: Tensor) -> None:
        kv_heads, size = keys.shape[2:]
        own = query[self.rows]
        own = own.reshape(len(own), kv_heads, -1, size).permute(1, 2, 0, 3)
        key, value = (
            stored.index_select(0, self.blocks).view(-1, kv_heads, 1, size).permute(1, 2, 0, 3)
            for stored in (keys, values)
        )
        key, value = (states.expand(-1, own.shape[1], -1, -1) for states in (key, value))
        mixed[self.rows] = _attention(own, key, value, self.mask).permute(2, 0, 1, 3).flatten(1, 2)


def _groups(cache: KvCache, chunks: Sequence[Chunk]) -> list[_Group]:
    """The chunks, in the order in which they are computed."""
    groups: list[_Group] = []
    decodes = defaultdict[int, list[tuple[int, Chunk]]](list)
    row = 0
    for chunk in chunks:
        blocks = -(-(chunk.start + chunk.count) // cache.block_size)
        if chunk.count == 1:
            decodes[blocks].append((row, chunk))
        else:
            groups.append(_prefill(cache, chunk, row, blocks))
        row += chunk.count
    return groups + [_decodes(cache, rows, blocks) for blocks, rows in decodes.items()]


def _prefill(cache: KvCache, chunk: Chunk, row: int, blocks: int) -> _Prefill:
    queries = np.arange(chunk.start, chunk.start + _padded(chunk.count))
    table = torch.tensor(chunk.block_table[:blocks], device=cache.blocks.device)
    return _Prefill(slice(row, row + chunk.count), table, _mask(cache, queries, blocks))


def _decodes(cache: KvCache, chunks: Sequence[tuple[int, Chunk]], blocks: int) -> _Decodes:
    device = cache.blocks.device
    rows = torch.tensor([row for row, _ in chunks], device=device)
    tables = torch.tensor([chunk.block_table[:blocks] for _, chunk in chunks], device=device)
    queries = np.array([chunk.start for _, chunk in chunks])
    return _Decodes(rows, tables.flatten(), _mask(cache, queries, blocks)[:, None, None])


def _mask(cache: KvCache, queries: NDArray[np.int64], blocks: int) -> Tensor:
    """What is added to the scores [queries, keys] of queries at these positions: minus infinity for keys at
    later positions."""
    behind = np.arange(blocks * cache.block_size) > queries[:, None]
    mask = np.where(behind, -np.inf, 0.0).astype(np.float32)
    return torch.from_numpy(mask).to(cache.blocks.device, cache.blocks.dtype)


def _attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """Mixed values of queries [B, heads, queries, d], whose number is padded for the kernel."""
    queries = query.shape[2]
    padded = functional.pad(query, (0, 0, 0, _padded(queries) - queries))
    return functional.scaled_dot_product_attention(padded, key, value, attn_mask=mask)[:, :, :queries]


def _padded(queries: int) -> int:
    return -(-queries // QUERY_MULTIPLE) * QUERY_MULTIPLE
