"""What a text costs at each level, in multiplications: the same on every machine."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from inference.hplm.pets import PetWeights
from inference.hplm.root_config import RootConfig


def count_operations(config: RootConfig, pet: PetWeights, lengths: Sequence[int]) -> npt.NDArray[np.float64]:
    """The multiplications [S, 2] of sequences of S lengths at the levels TABLE and FULL.

    A layer of width d and inner width f takes T (4 d² + 2 d f) for its six products of T tokens, and 2 T² d
    for attention. A PET adds T for each number in its matrices. TABLE computes the upper layers, FULL all
    layers. Left out: the composition of looked-up rows (about 2% of the upper layers), embeddings, layer
    norms and the head.
    """
    tokens = np.asarray(lengths, dtype=np.float64)
    hidden, inner = config.hidden, config.architecture.inner
    layer = tokens * (4 * hidden**2 + 2 * hidden * inner) + 2 * tokens**2 * hidden
    adapted = tokens * sum(value.numel() for value in pet.weights.values() if value.dim() == 3)
    return np.stack([config.upper * layer + adapted, config.layers * layer + adapted], axis=1)
