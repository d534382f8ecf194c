"""Attention within packed sequences: which kernel is chosen, and that each gives the same."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some
from torch import Tensor

from inference.decoder.dense_attention import DenseAttention
from inference.hplm.attention import attention
from inference.hplm.packed_attention import has_varlen_kernel, packed_attention, padded_attention
from inference.hplm.sequences import PackedSequences
from tests.pretended_cuda import pretended_cuda

T4, A100, H100 = (7, 5), (8, 0), (9, 0)
FLOAT16, BFLOAT16, FLOAT32 = torch.float16, torch.bfloat16, torch.float32
HEAD_SIZE = 16
KINDS = pytest.mark.parametrize(("kv_heads", "is_causal"), [(6, False), (6, True), (2, True)])
States = tuple[Tensor, Tensor, Tensor]
lengths_of = some.lists(some.integers(1, 70), min_size=1, max_size=6).map(tuple)


def states_of(
    sequences: PackedSequences, kv_heads: int, dtype: torch.dtype = FLOAT32, *, learn: bool = False
) -> States:
    """Random queries of 6 heads, keys and values."""
    generator = torch.Generator().manual_seed(sequences.tokens)
    shapes = [(sequences.tokens, heads, HEAD_SIZE) for heads in (6, kv_heads, kv_heads)]
    query, key, value = (torch.randn(shape, generator=generator).to(dtype) for shape in shapes)
    return query.requires_grad_(learn), key.requires_grad_(learn), value.requires_grad_(learn)


def flattened(states: States) -> States:
    """With all heads side by side, as encoders have them."""
    query, key, value = states
    return query.flatten(1), key.flatten(1), value.flatten(1)


@pytest.mark.parametrize(
    ("capability", "dtype", "head_size", "chosen"),
    [
        (A100, FLOAT16, 64, True),
        (H100, BFLOAT16, 256, True),
        (A100, FLOAT32, 64, False),
        (T4, FLOAT16, 64, False),
        (H100, FLOAT16, 4, False),
        (H100, FLOAT16, 264, False),
    ],
)
def test_flash_attention_is_for_half_precision_on_ampere_and_later(
    capability: tuple[int, int], dtype: torch.dtype, head_size: int, chosen: bool
) -> None:
    assert has_varlen_kernel(capability, dtype, head_size) is chosen


@pytest.mark.parametrize("dtype", [FLOAT16, BFLOAT16, FLOAT32], ids=str)
@pytest.mark.parametrize("capability", [T4, A100, H100], ids=str)
def test_every_gpu_attends_in_every_dtype(capability: tuple[int, int], dtype: torch.dtype) -> None:
    sequences = PackedSequences((3, 40, 3, 1))
    states = states_of(sequences, 6, dtype)
    expected = attention(*flattened(states), sequences, 6), DenseAttention(sequences)(0, *states)
    with pretended_cuda(capability) as cuda, torch.no_grad():
        query, key, value = states
        there = query.to("cuda"), key.to("cuda"), value.to("cuda")
        found = attention(*flattened(there), sequences, 6).cpu(), DenseAttention(sequences)(0, *there).cpu()
    varlen, padded = (cuda.launches.count(name) for name in ("_varlen_attn", "scaled_dot_product_attention"))
    # One launch for all sequences, or one for each padded length: 32 and 64.
    assert (varlen, padded) == ((0, 4) if capability == T4 or dtype == FLOAT32 else (2, 0))
    atol = 1e-5 if dtype == FLOAT32 else 0.02
    torch.testing.assert_close(found, expected, atol=atol, rtol=0)


@KINDS
@given(lengths=lengths_of)
def test_padded_sequences_attend_and_learn_like_packed_ones(
    lengths: tuple[int, ...], kv_heads: int, is_causal: bool
) -> None:
    sequences = PackedSequences(lengths)
    packed, padded = (states_of(sequences, kv_heads, learn=True) for _ in range(2))
    expected = packed_attention(*packed, sequences, is_causal=is_causal)
    found = padded_attention(*padded, sequences, is_causal=is_causal)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    weights = torch.linspace(-1, 1, expected.numel()).view_as(expected)
    gradients = (torch.autograd.grad(expected, packed, weights), torch.autograd.grad(found, padded, weights))
    torch.testing.assert_close(*gradients, atol=1e-5, rtol=0)


@KINDS
@given(lengths=lengths_of)
def test_a_padded_sequence_does_not_depend_on_its_company(
    lengths: tuple[int, ...], kv_heads: int, is_causal: bool
) -> None:
    """One that is not a number does not spread, either."""
    sequences = PackedSequences(lengths)
    states = states_of(sequences, kv_heads)
    for each in states[1:]:
        each[sequences.ends[-1] - 1] = torch.nan
    together = sequences.split(padded_attention(*states, sequences, is_causal=is_causal))
    for number, (query, key, value) in enumerate(zip(*map(sequences.split, states), strict=True)):
        own = PackedSequences(lengths[number : number + 1])
        alone = padded_attention(query, key, value, own, is_causal=is_causal)
        torch.testing.assert_close(together[number], alone, atol=0, rtol=0, equal_nan=True)
        assert number == len(lengths) - 1 or not alone.isnan().any()
    assert together[-1].isnan().any()
