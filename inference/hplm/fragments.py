"""Fragments of token ids: what a PLOT is keyed by (paper sections 3.2.1, 3.3.1 and 7.10).

A fragment of n ids is a window around a centre, which stands at place n // 2: (left, centre, right) for the
default of three. An absent or masked neighbour is the sentinel `missing`, which is the size of the
vocabulary. A fragment's level says how many neighbours it lacks on the right and on the left, counted from
the outside. All arrays are NumPy int64.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

DEFAULT_N: Final = 3
MIN_N: Final = 2
MAX_N: Final = 5
LEVEL_TRI: Final = 0
LEVEL_LEFT: Final = 1
"""Of three: left bi-gram, the right neighbour is missing."""
LEVEL_RIGHT: Final = 2
"""Of three: right bi-gram, the left neighbour is missing."""
LEVEL_UNI: Final = 3
LEVELS: Final = (LEVEL_TRI, LEVEL_LEFT, LEVEL_RIGHT, LEVEL_UNI)
LEVEL_NAMES: Final = ("trigram", "left_bigram", "right_bigram", "unigram")

ID_BITS: Final = 21
MAX_ID: Final = (1 << ID_BITS) - 1
# Odd constants of the SplitMix64 generator, whose last steps scatter the bits of a key.
_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB

Ids = NDArray[np.int64]


def window_extent(n: int) -> tuple[int, int]:
    """How many neighbours a window of n has on the left and on the right."""
    return n // 2, n - 1 - n // 2


def level_count(n: int) -> int:
    """How many levels fragments of n can have; 0 is the complete one, the last the centre alone."""
    left, right = window_extent(n)
    return (left + 1) * (right + 1)


def level_extent(level: int, n: int) -> tuple[int, int]:
    """How many neighbours a fragment of that level has on the left and on the right."""
    left, right = window_extent(n)
    lost_left, lost_right = divmod(level, right + 1)
    return left - lost_left, right - lost_right


def level_size(level: int, n: int) -> int:
    """How many tokens a fragment of that level shows."""
    return sum(level_extent(level, n)) + 1


def fallback_order(n: int) -> list[int]:
    """The levels from the most telling to the centre alone; of equal size the more even one first, then the
    one that sees more of what came before."""

    def rank(level: int) -> tuple[int, int, int]:
        left, right = level_extent(level, n)
        return -(left + right), abs(left - right), -left

    return sorted(range(level_count(n)), key=rank)


def level_name(level: int, n: int) -> str:
    """What people call it: "trigram", "left_bigram", "unigram", "5-gram", "4-gram_2_1" (two before, one
    after)."""
    left, right = level_extent(level, n)
    size = left + right + 1
    if size == 1:
        return "unigram"
    if size == n:
        return {2: "bigram", 3: "trigram"}.get(n, f"{n}-gram")
    if size == 2:
        return "left_bigram" if left else "right_bigram"
    return "trigram" if (left, right) == (1, 1) else f"{size}-gram_{left}_{right}"


def level_names(n: int) -> list[str]:
    """The names of all levels, in their order."""
    return [level_name(level, n) for level in range(level_count(n))]


def pack(fragments: Ids) -> Ids:
    """Keys [...] of fragments [..., n], not negative. Exact for n up to 3 (`left << 42 | centre << 21 |
    right`); for longer ones 63 bits of a hash, which a hundred million fragments share once in a thousand
    builds. Ids must fit 21 bits."""
    if fragments.shape[-1] <= DEFAULT_N:
        keys = np.zeros(fragments.shape[:-1], dtype=np.int64)
        for place in range(fragments.shape[-1]):
            keys = (keys << ID_BITS) | fragments[..., place]
        return keys
    mixed = np.zeros(fragments.shape[:-1], dtype=np.uint64)
    with np.errstate(over="ignore"):
        for place in range(fragments.shape[-1]):
            mixed = _splitmix64((mixed ^ fragments[..., place].astype(np.uint64)) + np.uint64(_STEP))
    return (mixed >> np.uint64(1)).astype(np.int64)


def _splitmix64(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    value = (value ^ (value >> np.uint64(30))) * np.uint64(_FIRST)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(_SECOND)
    return value ^ (value >> np.uint64(31))


def unpack(keys: Ids, n: int = DEFAULT_N) -> Ids:
    """Fragments [..., n] of keys [...]; the inverse of `pack` for n up to 3."""
    assert n <= DEFAULT_N, "the keys of longer fragments are hashes"
    shifts = np.arange(n - 1, -1, -1, dtype=np.int64) * ID_BITS
    return (keys[..., None] >> shifts) & MAX_ID


def unique(fragments: Ids) -> tuple[Ids, Ids, Ids]:
    """The different ones of fragments [N, n]: their keys [U] ascending, themselves [U, n], and which of them
    each was [N]."""
    keys, first, inverse = np.unique(pack(fragments), return_index=True, return_inverse=True)
    return keys, fragments[first], inverse


def extract(ids: Ids, missing: int, n: int = DEFAULT_N) -> Ids:
    """The fragments [T, n] around each token of one sequence [T]; nothing stands before the first or after
    the last."""
    left, right = window_extent(n)
    padded = np.full(len(ids) + left + right, missing, dtype=np.int64)
    padded[left : left + len(ids)] = ids
    return np.lib.stride_tricks.sliding_window_view(padded, n).copy()


def extract_all(sequences: Sequence[Ids], missing: int, n: int = DEFAULT_N) -> Ids:
    """What `extract` gives of several, one after the other [N, n]."""
    left, right = window_extent(n)
    lengths = [len(ids) for ids in sequences]
    apart = left + right
    at = np.arange(sum(lengths)) + left + np.repeat(np.arange(len(lengths)) * apart, lengths)
    padded = np.full(sum(lengths) + len(lengths) * apart, missing, dtype=np.int64)
    padded[at] = np.concatenate(sequences)
    windows: Ids = padded[at[:, None] + np.arange(-left, right + 1)]
    return windows


def fragment_levels(fragments: Ids, missing: int) -> NDArray[np.uint8]:
    """The level [...] of fragments [..., n]."""
    n = fragments.shape[-1]
    left, right = window_extent(n)
    absent = fragments == missing
    lost_left = absent[..., :left].sum(axis=-1)
    lost_right = absent[..., left + 1 :].sum(axis=-1)
    level: NDArray[np.uint8] = (lost_left * (right + 1) + lost_right).astype(np.uint8)
    return level


def shorten(fragments: Ids, level: int, missing: int) -> Ids:
    """A copy of fragments [..., n] without the neighbours that `level` lacks."""
    n = fragments.shape[-1]
    centre = n // 2
    left, right = level_extent(level, n)
    degraded = fragments.copy()
    degraded[..., : centre - left] = missing
    degraded[..., centre + right + 1 :] = missing
    return degraded
