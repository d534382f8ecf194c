"""Attention over the paged key-value cache equals dense causal attention, whatever else is in the step."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from inference.errors import HplmError
from inference.generation.kv_cache import KvCache
from inference.generation.paged_attention import PagedAttention
from inference.generation.step import Chunk
from tests.unit.inference.generation.chunks import chunk
from tests.unit.tiny_decoder import tiny_decoder

LAYER = 3
HEAD_DIM = 16
HEADS = pytest.mark.parametrize("heads", [(4, 4), (6, 2), (9, 3), (5, 1)], ids=str)


@dataclass(frozen=True)
class Stream:
    """Random queries [T, heads, d], keys and values [T, kv_heads, d] of one sequence, and its blocks."""

    query: Tensor
    key: Tensor
    value: Tensor
    block_table: Sequence[int]

    def __len__(self) -> int:
        return len(self.query)

    def dense(self, window: int | None = None) -> Tensor:
        """Causal attention without a cache, in double precision."""
        query, key, value = (
            states.double().transpose(0, 1)[None] for states in (self.query, self.key, self.value)
        )
        positions = torch.arange(len(self))
        distances = positions[:, None] - positions
        mask = (distances >= 0) & (distances < (window or len(self)))
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, enable_gqa=True)
        return mixed[0].transpose(0, 1)


class World:
    """Sequences whose blocks lie scattered in one cache."""

    def __init__(
        self,
        lengths: Sequence[int],
        heads: tuple[int, int],
        block_size: int = 4,
        dtype: torch.dtype = torch.float32,
        seed: int = 0,
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        counts = [-(-length // block_size) for length in lengths]
        free = torch.randperm(sum(counts) + 3, generator=generator).tolist()
        self.cache = KvCache(
            range(LAYER, LAYER + 2),
            len(free),
            block_size,
            heads[1],
            HEAD_DIM,
            dtype=dtype,
            device=torch.device("cpu"),
        )
        self.cache.blocks.fill_(torch.nan)  # as if its last owners had failed
        self.sequences = []
        for length, count in zip(lengths, counts, strict=True):
            query, key, value = (
                torch.randn(length, number, HEAD_DIM, generator=generator).to(dtype)
                for number in (heads[0], heads[1], heads[1])
            )
            table, free = free[:count], free[count:]
            self.sequences.append(Stream(query, key, value, table))

    def step(self, parts: Sequence[tuple[int, int, int]], window: int | None = None) -> list[Tensor]:
        """What the parts (sequence, start, count) get in one step."""
        chunks: list[Chunk] = []
        rows: list[tuple[Tensor, ...]] = []
        for number, start, count in parts:
            sequence, part = self.sequences[number], slice(start, start + count)
            chunks.append(chunk(start, count, sequence.block_table))
            rows.append((sequence.query[part], sequence.key[part], sequence.value[part]))
        query, key, value = (torch.cat(states) for states in zip(*rows, strict=True))
        mixed = PagedAttention(self.cache, chunks)(LAYER + 1, query, key, value, window)
        return list(torch.split(mixed, [count for _, _, count in parts]))


def steps(lengths: Sequence[int], seed: int) -> list[list[tuple[int, int, int]]]:
    """Steps of chunks of random sizes, many of one token, until all sequences are computed."""
    chance = random.Random(seed)
    done = [0] * len(lengths)
    made = []
    while any(left := [number for number, length in enumerate(lengths) if done[number] < length]):
        parts = []
        for number in chance.sample(left, chance.randint(1, len(left))):
            count = min(chance.choice([1, 1, 2, 7, 30]), lengths[number] - done[number])
            parts.append((number, done[number], count))
            done[number] += count
        made.append(parts)
    return made


@HEADS
@pytest.mark.parametrize("block_size", [1, 4, 16])
@pytest.mark.parametrize("window", [None, 1, 7, 17, 61])
def test_prefills_chunks_and_decodes_equal_dense_causal_attention(
    heads: tuple[int, int], block_size: int, window: int | None
) -> None:
    lengths = [1, 2, 5, 16, 17, 33, 48, 61]
    world = World(lengths, heads, block_size)
    found: list[list[Tensor]] = [[] for _ in lengths]
    for parts in steps(lengths, seed=block_size):
        for (number, _, _), mixed in zip(parts, world.step(parts, window), strict=True):
            found[number].append(mixed)
    for sequence, parts_found in zip(world.sequences, found, strict=True):
        expected = sequence.dense(window)
        torch.testing.assert_close(torch.cat(parts_found).double(), expected, atol=2e-6, rtol=1e-5)


@HEADS
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("window", [None, 9])
def test_a_decode_gets_the_same_bits_in_any_company(
    heads: tuple[int, int], dtype: torch.dtype, window: int | None
) -> None:
    lengths = [23, 24, 22, 40, 7, *range(3, 60)]
    world = World(lengths, heads, dtype=dtype)
    for number, length in enumerate(lengths):
        world.step([(number, 0, length - 1)], window)
    last = [(number, length - 1, 1) for number, length in enumerate(lengths)]
    alone = [world.step([part], window)[0] for part in last]
    for size in (2, 3, 11, 62):
        company = random.Random(size).sample(last, size)
        for (number, _, _), mixed in zip(company, world.step(company, window), strict=True):
            assert torch.equal(mixed, alone[number])


@HEADS
@pytest.mark.parametrize("count", [2, 31, 64])
@pytest.mark.parametrize("window", [None, 9])
def test_a_chunk_gets_the_same_bits_in_any_company(
    heads: tuple[int, int], count: int, window: int | None
) -> None:
    world = World([100, 80, 60, 90], heads, block_size=16)
    world.step([(number, 0, 19) for number in range(3)], window)
    (alone,) = world.step([(0, 19, count)], window)
    _, _, mixed, _ = world.step([(3, 0, 50), (2, 19, 1), (0, 19, count), (1, 19, 40)], window)
    assert torch.equal(mixed, alone)


def test_sequences_share_the_blocks_of_a_common_prefix() -> None:
    world = World([24, 24], (6, 2))
    first, second = world.sequences
    second.key[:8], second.value[:8] = first.key[:8], first.value[:8]
    world.sequences[1] = Stream(
        second.query, second.key, second.value, [*first.block_table[:2], *second.block_table[2:]]
    )
    world.step([(0, 0, 24)])
    (mixed,) = world.step([(1, 8, 16)])
    torch.testing.assert_close(mixed.double(), world.sequences[1].dense()[8:], atol=2e-6, rtol=1e-5)


def test_a_sequence_that_is_not_finite_leaves_its_neighbours_as_they_are() -> None:
    world = World([9, 9, 9], (4, 2))
    parts = [(number, 8, 1) for number in range(3)]
    world.step([(number, 0, 8) for number in range(3)])
    before = world.step(parts)
    world.sequences[1].key[8] = torch.nan
    after = world.step(parts)
    assert torch.equal(before[0], after[0])
    assert torch.equal(before[2], after[2])
    assert after[1].isnan().any()


def test_the_cache_takes_the_blocks_that_its_budget_holds() -> None:
    cache = KvCache.within(20_000, tiny_decoder(), 4)
    assert (len(cache), cache.bytes) == (6, 6 * 3072)


def test_a_budget_without_room_for_a_block_is_refused() -> None:
    with pytest.raises(HplmError, match="one block takes 3072"):
        KvCache.within(3000, tiny_decoder(), 4)
