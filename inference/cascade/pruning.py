"""Which tokens of a text that goes on are computed again (Tabi, section 4.2)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Mask = NDArray[np.bool_]


def kept_tokens(importance: Floats, words: NDArray[np.int64], pruning: float) -> Mask:
    """Which tokens [T] of a text are kept: the special ones, and all tokens of each word that has a token
    whose importance is above `pruning` (alpha) times the mean (Tabi, equation 5).

    importance [T]: the attention that each token receives. words [T]: the number of each token's word, -1 of
    special tokens. These do not count in the mean: they receive a multiple of what other tokens do. 0 prunes
    nothing; below 1 at least one word is kept.
    """
    special = words < 0
    if pruning <= 0 or special.all():
        return np.ones(len(words), dtype=np.bool_)
    important = ~special & (importance > pruning * importance[~special].mean())
    return np.asarray(special | np.isin(words, words[important]))
