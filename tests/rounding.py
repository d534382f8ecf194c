"""Which numbers of two computations have the same bits, and which are equal up to rounding.

The same bits, by contract, on every CPU; compare them exactly:

- rows of a decoder, so log probabilities and tokens: in any company, after a preemption, and after a crash;
- rows of tables, so what a lookup reads: from any file, cache or device;
- training that is replayed, from its start or from a checkpoint;
- what is only kept: weights, archives, an answer under an idempotency key.

On a GPU the first and the third are equal up to rounding: cuBLAS may choose kernels by the number of rows,
and gradients are added up in any order.

Equal up to rounding alone: what an encoder computes of a text in two different batches, so scores,
confidences, embeddings and logits. Processors have kernels of their own for each number of rows, which add up
in another order. Two requests may always be different batches: how texts are put together depends on when
they come. Compare these with `up_to_rounding`. Labels, levels, offsets and counts are exact there, too.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pytest

ROUNDING: Final = 1e-4
"""Of numbers in the order of 1 that were computed in float32."""


def up_to_rounding(value: Any, *, within: float = ROUNDING) -> Any:
    """What is equal to `value`, JSON or an array, if its floats differ by at most `within` and all else is
    the same."""
    if isinstance(value, float | np.ndarray):
        return pytest.approx(value, rel=0, abs=within)
    if isinstance(value, Mapping):
        return {name: up_to_rounding(each, within=within) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(up_to_rounding(each, within=within) for each in value)
    return value
