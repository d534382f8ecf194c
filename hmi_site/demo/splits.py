"""Splits without leakage: near copies of a text never stand in two splits."""

import re
import zlib
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

SPLITS: Final = ("train", "dev", "test")
_SHARES: Final = (0.8, 0.1, 0.1)
_SHINGLE_WORDS: Final = 4
_BANDS: Final = 12
_ROWS_PER_BAND: Final = 2
_PRIME: Final = (1 << 31) - 1


def assign_splits(texts: Sequence[str]) -> list[str]:
    """A split for each text, the same for all texts that are copies or near copies of each other.

    Near copies are found by MinHash with banding: two texts that share about three quarters of their
    shingles of four words meet in some band with probability above 0.99, and everything that is
    connected by such meetings goes to one split.
    """
    groups = near_copy_groups(texts)
    first: dict[int, str] = {}
    for group, text in zip(groups, texts, strict=True):
        first.setdefault(int(group), text)
    thresholds = np.cumsum(_SHARES)
    chosen = {
        group: SPLITS[int(np.searchsorted(thresholds, zlib.crc32(text.encode()) / 2**32, side="right"))]
        for group, text in first.items()
    }
    return [chosen[int(group)] for group in groups]


def near_copy_groups(texts: Sequence[str]) -> NDArray[np.int32]:
    """The number of the group of near copies that each text belongs to, shape ``[len(texts)]``."""
    signatures = np.stack([_min_hashes(text) for text in texts])
    rows: list[NDArray[np.int64]] = []
    columns: list[NDArray[np.int64]] = []
    offset = 0
    for band in range(_BANDS):
        part = signatures[:, band * _ROWS_PER_BAND : (band + 1) * _ROWS_PER_BAND]
        _, bucket = np.unique(part, axis=0, return_inverse=True)
        rows.append(np.arange(len(texts)))
        columns.append(bucket.reshape(-1) + offset)
        offset += int(bucket.max()) + 1
    row, column = np.concatenate(rows), np.concatenate(columns) + len(texts)
    size = len(texts) + offset
    edges = coo_matrix((np.ones(len(row), dtype=np.int8), (row, column)), shape=(size, size))
    _, groups = connected_components(edges, directed=False)
    return np.asarray(groups[: len(texts)], dtype=np.int32)


def _min_hashes(text: str) -> NDArray[np.int64]:
    words = re.findall(r"\w+", text.lower())
    count = max(1, len(words) - _SHINGLE_WORDS + 1)
    shingles = {" ".join(words[i : i + _SHINGLE_WORDS]) for i in range(count)}
    hashes = np.array([zlib.crc32(shingle.encode()) % _PRIME for shingle in shingles], dtype=np.int64)
    return np.asarray(((hashes[:, None] * _MULTIPLIERS + _OFFSETS) % _PRIME).min(axis=0), dtype=np.int64)


_GENERATOR = np.random.default_rng(20240607)
_MULTIPLIERS = _GENERATOR.integers(1, _PRIME, _BANDS * _ROWS_PER_BAND, dtype=np.int64)
_OFFSETS = _GENERATOR.integers(0, _PRIME, _BANDS * _ROWS_PER_BAND, dtype=np.int64)
