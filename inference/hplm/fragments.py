"""Fragments: the n-grams of token ids that are the keys of a PLOT (paper, sections 3.2.1, 3.3.1 and 7.10).

A fragment of n ids is a window around its centre, at index n // 2: (left, centre, right) for n = 3. A missing
or masked neighbour has the id `missing`, the size of the vocabulary. A fragment's level encodes how many
neighbours are missing on each side; level 0 is complete. All arrays are NumPy int64.
"""

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

DEFAULT_N: Final = 3
MIN_N: Final = 2
MAX_N: Final = 5
LEVEL_TRI: Final = 0
LEVEL_LEFT: Final = 1
"""For n = 3: the right neighbour is missing."""
LEVEL_RIGHT: Final = 2
"""For n = 3: the left neighbour is missing."""
LEVEL_UNI: Final = 3
LEVELS: Final = (LEVEL_TRI, LEVEL_LEFT, LEVEL_RIGHT, LEVEL_UNI)
UNIGRAM: Final = "unigram"

ID_BITS: Final = 21
MAX_ID: Final = (1 << ID_BITS) - 1
# Constants of SplitMix64.
_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB

Ids = NDArray[np.int64]


def window_extent(n: int) -> tuple[int, int]:
    """The number of left and right neighbours of a complete fragment of n tokens."""
    return n // 2, n - 1 - n // 2


def level_count(n: int) -> int:
    """The number of levels of fragments of n tokens. Level 0 is complete, the last one is the unigram."""
    left, right = window_extent(n)
    return (left + 1) * (right + 1)


def level_extent(level: int, n: int) -> tuple[int, int]:
    """The number of left and right neighbours of a fragment of this level."""
    left, right = window_extent(n)
    missing_left, missing_right = divmod(level, right + 1)
    return left - missing_left, right - missing_right


def fallback_order(n: int) -> list[int]:
    """The levels in the order of a lookup: longest first, then most symmetric, then more left neighbours."""

    def rank(level: int) -> tuple[int, int, int]:
        left, right = level_extent(level, n)
        return -(left + right), abs(left - right), -left

    return sorted(range(level_count(n)), key=rank)


def level_name(level: int, n: int) -> str:
    """The name of a level: "trigram", "left_bigram", "unigram", "5-gram", "4-gram_2_1" (2 left, 1 right)."""
    left, right = level_extent(level, n)
    size = left + right + 1
    if size == 1:
        return UNIGRAM
    if size == n:
        return {2: "bigram", 3: "trigram"}.get(n, f"{n}-gram")
    if size == 2:
        return "left_bigram" if left else "right_bigram"
    return "trigram" if (left, right) == (1, 1) else f"{size}-gram_{left}_{right}"


def level_names(n: int) -> list[str]:
    """The names of all levels, in order."""
    return [level_name(level, n) for level in range(level_count(n))]


def pack(fragments: Ids) -> Ids:
    """Non-negative keys [...] of fragments [..., n], whose ids fit 21 bits.

    For n up to 3 they are exact: `left << 42 | centre << 21 | right`. For larger n they are 63-bit hashes: a
    table of 10^8 fragments has a collision with a probability of 0.001.
    """
    if fragments.shape[-1] <= DEFAULT_N:
        keys = np.zeros(fragments.shape[:-1], dtype=np.int64)
        for index in range(fragments.shape[-1]):
            keys = (keys << ID_BITS) | fragments[..., index]
        return keys
    mixed = np.zeros(fragments.shape[:-1], dtype=np.uint64)
    with np.errstate(over="ignore"):
        for index in range(fragments.shape[-1]):
            mixed = _splitmix64((mixed ^ fragments[..., index].astype(np.uint64)) + np.uint64(_STEP))
    return (mixed >> np.uint64(1)).astype(np.int64)


def _splitmix64(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    value = (value ^ (value >> np.uint64(30))) * np.uint64(_FIRST)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(_SECOND)
    return value ^ (value >> np.uint64(31))


def unpack(keys: Ids, n: int = DEFAULT_N) -> Ids:
    """Fragments [..., n] of keys [...]: the inverse of `pack`, for n up to 3."""
    assert n <= DEFAULT_N, "the keys of longer fragments are hashes"
    shifts = np.arange(n - 1, -1, -1, dtype=np.int64) * ID_BITS
    return (keys[..., None] >> shifts) & MAX_ID


def unique(fragments: Ids) -> tuple[Ids, Ids, Ids]:
    """The U distinct ones of fragments [N, n]: ascending keys [U], fragments [U, n], inverse index [N]."""
    keys, first, inverse = np.unique(pack(fragments), return_index=True, return_inverse=True)
    return keys, fragments[first], inverse


def extract(ids: Ids, missing: int, n: int = DEFAULT_N) -> Ids:
    """The fragments [T, n] around the tokens of a sequence [T]. Neighbours beyond its ends are missing."""
    left, right = window_extent(n)
    padded = np.full(len(ids) + left + right, missing, dtype=np.int64)
    padded[left : left + len(ids)] = ids
    return np.lib.stride_tricks.sliding_window_view(padded, n).copy()


def extract_all(sequences: Sequence[Ids], missing: int, n: int = DEFAULT_N) -> Ids:
    """The fragments [N, n] of several sequences, concatenated."""
    left, right = window_extent(n)
    lengths = [len(ids) for ids in sequences]
    gap = left + right
    at = np.arange(sum(lengths)) + left + np.repeat(np.arange(len(lengths)) * gap, lengths)
    padded = np.full(sum(lengths) + len(lengths) * gap, missing, dtype=np.int64)
    padded[at] = np.concatenate(sequences)
    windows: Ids = padded[at[:, None] + np.arange(-left, right + 1)]
    return windows


def fragment_levels(fragments: Ids, missing: int) -> NDArray[np.uint8]:
    """The level [...] of fragments [..., n]."""
    n = fragments.shape[-1]
    left, right = window_extent(n)
    is_missing = fragments == missing
    missing_left = is_missing[..., :left].sum(axis=-1)
    missing_right = is_missing[..., left + 1 :].sum(axis=-1)
    level: NDArray[np.uint8] = (missing_left * (right + 1) + missing_right).astype(np.uint8)
    return level


def in_ladder(fragments: Ids, ladder: Collection[str], missing: int) -> NDArray[np.bool_]:
    """Which [...] of fragments [..., n] are of the levels with these names."""
    held = np.array([name in ladder for name in level_names(fragments.shape[-1])])
    found: NDArray[np.bool_] = held[fragment_levels(fragments, missing)]
    return found


def shorten(fragments: Ids, level: int, missing: int) -> Ids:
    """A copy of fragments [..., n] without the neighbours that are missing at `level`."""
    n = fragments.shape[-1]
    centre = n // 2
    left, right = level_extent(level, n)
    shortened = fragments.copy()
    shortened[..., : centre - left] = missing
    shortened[..., centre + right + 1 :] = missing
    return shortened
