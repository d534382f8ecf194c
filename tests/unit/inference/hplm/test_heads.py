"""Output heads, alone and side by side."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from inference.errors import HplmError
from inference.hplm.heads import POOLINGS, Head, apply_heads, pool
from inference.hplm.sequences import PackedSequences

HIDDEN = 6


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), min_size=1, max_size=6),
    st.permutations(POOLINGS),
)
def test_heads_of_any_widths_and_poolings_side_by_side_answer_without_padding(
    rows: list[tuple[int, int]], poolings: list[str]
) -> None:
    heads = [
        Head.initial(width, HIDDEN, pooling=pooling)  # type: ignore[arg-type]
        for width, pooling in zip((2, 7, 3), poolings, strict=True)
    ]
    index, lengths = (list(column) for column in zip(*rows, strict=True))
    states = torch.randn(sum(lengths), HIDDEN)
    chosen = [heads[which] for which in index]
    found = apply_heads(chosen, states, PackedSequences(tuple(lengths)))
    for head, own, outputs in zip(chosen, torch.split(states, lengths), found, strict=True):
        alone = pool(own[None], torch.ones(1, len(own), dtype=torch.bool), head.pooling)
        expected = head.apply(alone)[0]
        assert outputs.shape == tuple(expected.shape)
        np.testing.assert_allclose(outputs, expected.numpy(), atol=1e-5)


def test_weights_of_contradicting_shapes_are_no_head() -> None:
    with pytest.raises(HplmError, match="head"):
        Head.from_tensors({"weight": torch.zeros(2, 3), "bias": torch.zeros(3)})
    with pytest.raises(HplmError, match="pooling"):
        Head.from_tensors({"weight": torch.zeros(2, 3), "bias": torch.zeros(2)}, "max")  # type: ignore[arg-type]
