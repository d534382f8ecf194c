import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from inference.hplm.compose import compose

HIDDEN = 3


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(0, 3), st.booleans(), st.integers(0, 99)
)
def test_a_token_sums_what_its_own_and_both_neighbouring_fragments_give_it(
    lengths: list[int], padding: int, own_bias: bool, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    tokens = max(lengths) + padding
    slots = torch.randn(len(lengths), tokens, 3, HIDDEN, generator=generator)
    bias = torch.randn(*([len(lengths)] if own_bias else []), tokens + 2, HIDDEN, generator=generator)
    states = compose(slots, torch.tensor(lengths), bias)
    for row, length in enumerate(lengths):
        for at in range(tokens):
            expected = torch.zeros(HIDDEN)
            if at < length:
                expected = slots[row, at, 1] + (bias[row] if own_bias else bias)[at]
                if at > 0:
                    expected = expected + slots[row, at - 1, 2]
                if at + 1 < length:
                    expected = expected + slots[row, at + 1, 0]
            assert torch.allclose(states[row, at], expected, atol=1e-6)


def test_what_stands_in_the_padding_does_not_matter_even_when_it_is_not_a_number() -> None:
    slots = torch.randn(1, 4, 3, HIDDEN)
    bias = torch.randn(4, HIDDEN)
    clean = compose(slots, torch.tensor([2]), bias)
    slots[:, 2:] = torch.nan
    assert torch.equal(compose(slots, torch.tensor([2]), bias), clean)


def test_half_precision_rows_are_summed_in_single_precision() -> None:
    row = np.float16(0.1)
    slots = torch.full((1, 3, 3, 1), float(row), dtype=torch.float16)
    state = compose(slots, torch.tensor([3]), torch.zeros(3, 1))
    assert state.dtype == torch.float32
    assert state[0, 1, 0] == 3 * np.float32(row)


def test_gradients_reach_rows_and_position_bias() -> None:
    slots = torch.randn(2, 4, 3, HIDDEN, requires_grad=True)
    bias = torch.zeros(4, HIDDEN, requires_grad=True)
    compose(slots, torch.tensor([4, 2]), bias).sum().backward()  # type: ignore[no-untyped-call]
    assert slots.grad is not None
    assert bias.grad is not None
    assert slots.grad[1, 2:].abs().sum() == 0
    assert bias.grad[:, 0].tolist() == [2, 2, 1, 1]
