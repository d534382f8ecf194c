"""Output heads, alone and side by side."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from inference.errors import HplmError
from inference.hplm.heads import POOLINGS, Head, apply_heads, pool
from inference.hplm.sequences import PackedSequences

HIDDEN = 6


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4)), min_size=1, max_size=8),
    st.permutations([*POOLINGS]),
)
def test_heads_of_any_widths_and_poolings_side_by_side_answer_without_padding(
    rows: list[tuple[int, int]], poolings: list[str]
) -> None:
    heads = [
        Head.initial(width, HIDDEN, pooling=pooling)  # type: ignore[arg-type]
        for width, pooling in zip((2, 7, 3, 1, 4, 5), poolings, strict=True)
    ]
    index, lengths = (list(column) for column in zip(*rows, strict=True))
    last, cut = torch.randn(2, sum(lengths), HIDDEN)
    chosen = [heads[which] for which in index]
    found = apply_heads(chosen, last, PackedSequences(tuple(lengths)), cut)
    parts = (torch.split(states, lengths) for states in (last, cut))
    for head, own, below, outputs in zip(chosen, *parts, found, strict=True):
        alone = pool(own[None], torch.ones(1, len(own), dtype=torch.bool), head.pooling, below[None])
        expected = head.apply(alone)[0]
        assert outputs.shape == tuple(expected.shape)
        np.testing.assert_allclose(outputs, expected.numpy(), atol=1e-5)


def test_padding_changes_nothing_of_what_a_head_reads() -> None:
    last, cut = torch.randn(2, 1, 3, HIDDEN)
    filled = [functional.pad(states, (0, 0, 0, 2), value=torch.nan) for states in (last, cut)]
    mask = torch.tensor([[True, True, True, False, False]])
    for pooling in POOLINGS:
        whole = pool(filled[0], mask, pooling, filled[1])
        alone = pool(last, mask[:, :3], pooling, cut)
        torch.testing.assert_close(whole[:, :3] if whole.dim() == 3 else whole, alone)


def test_weights_of_contradicting_shapes_are_no_head() -> None:
    with pytest.raises(HplmError, match="head"):
        Head.from_tensors({"weight": torch.zeros(2, 3), "bias": torch.zeros(3)})
    with pytest.raises(HplmError, match="pooling"):
        Head.from_tensors({"weight": torch.zeros(2, 3), "bias": torch.zeros(2)}, "max")  # type: ignore[arg-type]
    with pytest.raises(HplmError, match="cut_last does not give 6 inputs"):
        Head.from_tensors({"weight": torch.zeros(2, 6), "bias": torch.zeros(2)}, "cut_last")
