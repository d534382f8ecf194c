import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from inference.hplm.compose import (
    Composition,
    bias_rows,
    compose,
    compose_packed,
    pack_layout,
    source_vectors,
)
from inference.hplm.fragments import window_extent

HIDDEN = 3
Ids = NDArray[np.int64]


def parts(tokens: int, *, rank: int = 2, generator: torch.Generator | None = None) -> Composition:
    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    return Composition(draw(tokens, HIDDEN), draw(2, HIDDEN), draw(4, HIDDEN, rank), draw(rank, HIDDEN))


def plain(tokens: int) -> Composition:
    """Nothing but the sum."""
    zeros = torch.zeros
    return Composition(zeros(tokens, HIDDEN), zeros(1, HIDDEN), zeros(4, HIDDEN, 0), zeros(0, HIDDEN))


def by_definition(slots: Tensor, given: Composition, types: Tensor) -> Tensor:
    """States [T, d] of one text of rows [T, n, d], token by token."""
    length, n = slots.shape[:2]
    left, _ = window_extent(n)
    sums = []
    for at in range(length):
        state = given.position_bias[at] + given.type_bias[types[at]]
        for slot in range(n):
            speaker = at + left - slot
            if 0 <= speaker < length:
                state = state + slots[speaker, slot]
        sums.append(state)
    nothing, mean = torch.zeros(HIDDEN), torch.stack(sums).mean(0)
    states = []
    for at, own in enumerate(sums):
        before, after = sums[at - 1] if at else nothing, sums[at + 1] if at + 1 < length else nothing
        around = zip((own, before, after, mean), given.context_down, strict=True)
        correction = torch.stack([state @ down for state, down in around]).sum(0)
        states.append(own + correction @ given.context_up)
    return torch.stack(states)


@given(
    st.integers(2, 5),
    st.lists(st.integers(1, 6), min_size=1, max_size=4),
    st.integers(0, 3),
    st.integers(0, 99),
)
def test_a_token_sums_what_its_own_and_its_neighbours_fragments_give_it(
    n: int, lengths: list[int], padding: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    tokens = max(lengths) + padding
    slots = torch.randn(len(lengths), tokens, n, HIDDEN, generator=generator)
    given = parts(tokens + 2, generator=generator)
    types = torch.randint(2, slots.shape[:2], generator=generator)
    states = compose(slots, torch.tensor(lengths), given, types)
    for row, length in enumerate(lengths):
        expected = by_definition(slots[row, :length], given, types[row])
        torch.testing.assert_close(states[row, :length], expected, atol=1e-4, rtol=1e-4)
        assert not states[row, length:].any()


def laid_out(
    rows: Tensor, place: Ids, lengths: Ids, given: Composition, types: Ids, *, spare: int = 0
) -> Tensor:
    """Token states [N, d] of texts laid end to end, with room behind the rows where there is some."""
    layout = pack_layout(place, lengths, types, n=rows.shape[1], rows=len(rows), type_count=given.types)
    room = torch.full((spare, *rows.shape[1:]), torch.nan, dtype=rows.dtype)
    return compose_packed(source_vectors(torch.cat([rows, room]), layout, given), layout, given)


@given(st.integers(2, 5), st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(0, 99))
def test_texts_laid_end_to_end_are_composed_as_texts_side_by_side(
    n: int, lengths: list[int], seed: int
) -> None:
    draw, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    given = parts(max(lengths) + 2, generator=generator)
    rows = torch.randn(4, n, HIDDEN, generator=generator)
    place, types = draw.integers(0, 4, sum(lengths)), draw.integers(0, 2, sum(lengths))
    states = laid_out(rows, place, np.array(lengths), given, types)
    start = 0
    for length in lengths:
        text = slice(start, start + length)
        expected = by_definition(rows[place[text]], given, torch.from_numpy(types[text]))
        torch.testing.assert_close(states[text], expected, atol=1e-4, rtol=1e-4)
        start += length


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(1, 2), st.integers(0, 99))
def test_below_rougher_layers_states_are_as_near_as_their_numbers_allow(
    lengths: list[int], kinds: int, seed: int
) -> None:
    draw, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    given = parts(max(lengths), generator=generator)
    rows = torch.randn(4, 3, HIDDEN, generator=generator).half()
    place, types = draw.integers(0, 4, sum(lengths)), draw.integers(0, kinds, sum(lengths))
    rough = given.with_context_dtype(torch.bfloat16)
    exact = laid_out(rows, place, np.array(lengths), given, types)
    assert exact.dtype == torch.float32
    for spare in (0, bias_rows(max(lengths), 2, 3)):
        states = laid_out(rows, place, np.array(lengths), rough, types, spare=spare)
        assert states.dtype == torch.bfloat16
        torch.testing.assert_close(states.float(), exact, atol=0.25, rtol=0.05)


def test_without_a_correction_rows_in_half_precision_are_summed_in_single_and_rounded_once() -> None:
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(4, 3, HIDDEN, generator=generator).half()
    place, types, lengths = np.arange(4), np.zeros(4, dtype=np.int64), np.array([4])
    exact = laid_out(rows, place, lengths, plain(4), types)
    rough = laid_out(rows, place, lengths, plain(4).with_context_dtype(torch.bfloat16), types)
    assert exact.dtype == torch.float32
    assert torch.equal(rough.float(), exact.half().float())


def test_what_stands_in_the_padding_does_not_matter_even_when_it_is_not_a_number() -> None:
    slots, given = torch.randn(1, 4, 3, HIDDEN), parts(4)
    clean = compose(slots, torch.tensor([2]), given)
    slots[:, 2:] = torch.nan
    assert torch.equal(compose(slots, torch.tensor([2]), given), clean)


def test_gradients_reach_the_rows_and_everything_that_enters_after_the_sum() -> None:
    slots = torch.randn(2, 4, 3, HIDDEN, requires_grad=True)
    given = parts(4)
    learnt = [value.requires_grad_(True) for value in given.tensors().values()]
    compose(slots, torch.tensor([4, 2]), given).square().sum().backward()  # type: ignore[no-untyped-call]
    assert slots.grad is not None
    assert slots.grad[1, 2:].abs().sum() == 0
    assert all(value.grad is not None and value.grad.abs().sum() > 0 for value in learnt)
