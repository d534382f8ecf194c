"""What a text costs at each level, in multiplications: the same on every machine."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from inference.hplm.pets import PetWeights
from inference.hplm.root_config import RootConfig

Floats = npt.NDArray[np.float64]


def count_operations(
    config: RootConfig, pet: PetWeights, lengths: Sequence[int], kept: Sequence[int] | None = None
) -> Floats:
    """The multiplications [S, 2] of sequences of S lengths at the levels TABLE and FULL. kept: the tokens of
    each that the level FULL's upper layers compute; None: all, and nothing is pruned.

    A layer of width d and inner width f takes T (4 d² + 2 d f) for its six products of T tokens, and 2 T² d
    for attention. A PET adds T for each number in its matrices. TABLE computes the upper layers, FULL all
    layers. Pruning adds T² d for each upper layer, to know which tokens are kept. Left out: the composition
    of looked-up rows (about 2% of the upper layers), embeddings, layer norms and the head.
    """
    tokens = np.asarray(lengths, dtype=np.float64)
    table = _upper(config, pet, tokens)
    full = config.lower * _layer(config, tokens)
    if kept is None:
        return np.stack([table, full + table], axis=1)
    importance = config.upper * tokens**2 * config.hidden
    pruned = _upper(config, pet, np.asarray(kept, dtype=np.float64))
    return np.stack([table, full + pruned + importance], axis=1)


def _upper(config: RootConfig, pet: PetWeights, tokens: Floats) -> Floats:
    adapted = tokens * sum(value.numel() for value in pet.weights.values() if value.dim() == 3)
    return np.asarray(config.upper * _layer(config, tokens) + adapted)


def _layer(config: RootConfig, tokens: Floats) -> Floats:
    hidden, inner = config.hidden, config.architecture.inner
    return np.asarray(tokens * (4 * hidden**2 + 2 * hidden * inner) + 2 * tokens**2 * hidden)
