"""Fragments of token ids: what a PLOT is keyed by (paper sections 3.2.1 and 3.3.1).

A fragment is three ids (left, centre, right). An absent or masked neighbour is the sentinel `missing`,
which is the size of the vocabulary. Which neighbours are missing is the fragment's level. All arrays are
NumPy int64.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

N: Final = 3
LEVEL_TRI: Final = 0
LEVEL_LEFT: Final = 1
"""Left bi-gram: the right neighbour is missing."""
LEVEL_RIGHT: Final = 2
"""Right bi-gram: the left neighbour is missing."""
LEVEL_UNI: Final = 3
LEVELS: Final = (LEVEL_TRI, LEVEL_LEFT, LEVEL_RIGHT, LEVEL_UNI)
LEVEL_NAMES: Final = ("trigram", "left_bigram", "right_bigram", "unigram")

ID_BITS: Final = 21
MAX_ID: Final = (1 << ID_BITS) - 1

Ids = NDArray[np.int64]


def pack(fragments: Ids) -> Ids:
    """Keys [...] of fragments [..., 3]: `left << 42 | centre << 21 | right`. Ids must fit 21 bits."""
    left, centre, right = fragments[..., 0], fragments[..., 1], fragments[..., 2]
    return (left << (2 * ID_BITS)) | (centre << ID_BITS) | right


def unpack(keys: Ids) -> Ids:
    """Fragments [..., 3] of keys [...]; the inverse of `pack`."""
    return np.stack([keys >> (2 * ID_BITS), (keys >> ID_BITS) & MAX_ID, keys & MAX_ID], axis=-1)


def of_sequence(ids: Ids, missing: int) -> Ids:
    """The fragments [T, 3] around each token of one sequence [T]; nothing stands before the first or after
    the last."""
    padded = np.full(len(ids) + 2, missing, dtype=np.int64)
    padded[1:-1] = ids
    return np.stack([padded[:-2], padded[1:-1], padded[2:]], axis=-1)


def level_of(fragments: Ids, missing: int) -> NDArray[np.uint8]:
    """The level [...] of fragments [..., 3]: bit 0 says the right neighbour is missing, bit 1 the left
    one."""
    right = (fragments[..., 2] == missing).astype(np.uint8)
    left = (fragments[..., 0] == missing).astype(np.uint8)
    level: NDArray[np.uint8] = right | (left << 1)
    return level


def degrade(fragments: Ids, level: int, missing: int) -> Ids:
    """A copy of fragments [..., 3] without the neighbours that `level` lacks."""
    degraded = fragments.copy()
    if level & LEVEL_LEFT:
        degraded[..., 2] = missing
    if level & LEVEL_RIGHT:
        degraded[..., 0] = missing
    return degraded
