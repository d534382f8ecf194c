"""Packed sequences: where each lies, and that attention keeps them apart."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from inference.hplm.attention import attention
from inference.hplm.sequences import PackedSequences

lengths_of = st.lists(st.integers(1, 9), min_size=1, max_size=8).map(tuple)
HEADS, HIDDEN = 2, 8


@given(lengths_of)
def test_each_token_has_its_position_in_its_own_sequence(lengths: tuple[int, ...]) -> None:
    sequences = PackedSequences(lengths)
    assert sequences.positions.tolist() == [at for length in lengths for at in range(length)]
    assert sequences.tokens == sum(lengths)
    every = sequences.tokens_of(range(len(lengths)))
    assert every.tolist() == list(range(sequences.tokens))
    assert sequences.cumulative(torch.device("cpu")).tolist() == [
        sum(lengths[:at]) for at in range(len(lengths) + 1)
    ]


@settings(deadline=None)
@given(lengths_of, st.sampled_from([torch.float32, torch.bfloat16]))
def test_a_sequence_attends_to_itself_alone(lengths: tuple[int, ...], dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    sequences = PackedSequences(lengths)
    query, key, value = (
        torch.randn(sequences.tokens, HIDDEN, generator=generator).to(dtype) for _ in range(3)
    )
    found = sequences.split(attention(query, key, value, sequences, HEADS).float())
    parts = zip(*(sequences.split(states.float()) for states in (query, key, value)), strict=True)
    for mixed, (q, k, v) in zip(found, parts, strict=True):
        split = [part.view(1, len(part), HEADS, -1).transpose(1, 2) for part in (q, k, v)]
        alone = functional.softmax(split[0] @ split[1].mT * split[0].shape[-1] ** -0.5, -1) @ split[2]
        expected = alone.transpose(1, 2).flatten(2)[0]
        atol = 1e-5 if dtype == torch.float32 else 0.05
        torch.testing.assert_close(mixed, expected, atol=atol, rtol=0)


def test_a_query_that_is_not_a_number_gives_none() -> None:
    """Without a mask PyTorch's kernel would answer it with zeros, and hide a broken model."""
    sequences = PackedSequences((3, 2))
    query, key, value = (torch.ones(5, HIDDEN) for _ in range(3))
    query[1] = torch.nan
    found = attention(query, key, value, sequences, HEADS)
    assert found[1].isnan().all()
    assert not found[[0, 2, 3, 4]].isnan().any()
