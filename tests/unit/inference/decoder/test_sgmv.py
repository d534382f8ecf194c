"""The LoRAs of a step on a CPU: against a loop in float64, and the same in any company."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from inference.decoder.lora import DecoderLora
from inference.decoder.lora_deltas import LoraDeltas
from inference.decoder.lora_layout import changed_maps
from inference.decoder.sgmv.cpu import batched_rows
from inference.decoder.sgmv.stacks import LoraStacks
from tests.unit.inference.decoder.loras import (
    Parts,
    SmallDecoder,
    full_lora,
    looped,
    random_lora,
    random_states,
)

SHAPE = SmallDecoder()
USUAL = SmallDecoder(hidden=48, keys=32, inner=80)
"""With sizes that are multiples of 16, as in real models: there, numbers are the same bit by bit."""
PLACES = [(layer, projection) for layer in range(SHAPE.layers) for projection in changed_maps(SHAPE)]


def added(
    parts: Parts, inputs: Tensor, outputs: Tensor, place: tuple[int, str], stacks: LoraStacks | None
) -> Tensor:
    """The outputs with what a step's LoRAs add."""
    results = outputs.clone()
    return LoraDeltas(parts, stacks)(*place, results if inputs is outputs else inputs, results)


def assert_as_looped(
    parts: Parts, stacks: LoraStacks | None, places: Sequence[tuple[int, str]] = PLACES
) -> None:
    tokens = sum(count for _, count in parts)
    for place in places:
        inputs, outputs = random_states(SHAPE, place[1], tokens)
        expected = looped(parts, *place, inputs, outputs)
        torch.testing.assert_close(
            added(parts, inputs, outputs, place, stacks).double(), expected, rtol=1e-5, atol=1e-5
        )


def loras_of(shape: SmallDecoder) -> list[DecoderLora | None]:
    """Some that could share products, and some on other projections or of other ranks."""
    return [
        None,
        full_lora(shape, 4, 1),
        full_lora(shape, 4, 2),
        full_lora(shape, 4, 3),
        full_lora(shape, 9, 4),
        random_lora(shape, {(0, "key"): 1}, 5),
        random_lora(shape, {(0, "key"): 1}, 6),
        random_lora(shape, {(0, "query"): 3, (0, "value"): 40, (2, "gate"): 2}, 7),
        random_lora(shape, {(1, "down"): 1, (1, "output"): 128}, 8),
        random_lora(shape, {(0, "adapter"): 8, (2, "output_adapter"): 300}, 9),
        random_lora(shape, {(0, "adapter"): 8, (2, "output_adapter"): 300}, 10),
    ]


def steps_of(loras: list[DecoderLora | None]) -> st.SearchStrategy[Any]:
    """The parts of a step."""
    counts = st.sampled_from([0, 1, 1, 1, 2, 5, 17, 70])
    return st.lists(st.tuples(st.sampled_from(loras), counts), max_size=12)


LORAS, USUAL_LORAS = loras_of(SHAPE), loras_of(USUAL)


@settings(max_examples=25)
@given(parts=steps_of(LORAS), place=st.sampled_from(PLACES))
def test_any_mix_of_ranks_projections_and_lengths_is_that_of_a_loop(
    parts: Parts, place: tuple[int, str]
) -> None:
    assert_as_looped(parts, None, [place])
    assert_as_looped(parts, LoraStacks(), [place])


@settings(max_examples=25)
@given(steps=st.lists(steps_of(USUAL_LORAS), min_size=2, max_size=5), place=st.sampled_from(PLACES))
def test_stacks_that_requests_join_and_leave_give_the_same_numbers_as_new_ones(
    steps: list[Parts], place: tuple[int, str]
) -> None:
    stacks = LoraStacks()
    for parts in steps:
        inputs, outputs = random_states(USUAL, place[1], sum(count for _, count in parts))
        used, alone = (added(parts, inputs, outputs, place, given) for given in (stacks, LoraStacks()))
        assert torch.equal(used, alone)


@pytest.mark.parametrize(
    ("counts", "rows"),
    [([1] * 32, 4), ([5, 6, 7, 8], 8), ([16] * 8, 16), ([1, 1, 1, 1, 16], 4), ([300, 1, 2], 4)],
)
def test_a_long_segment_does_not_lengthen_the_product_of_many_short_ones(
    counts: list[int], rows: int
) -> None:
    assert batched_rows(counts) == rows


@settings(max_examples=25)
@given(
    lora=st.sampled_from(USUAL_LORAS),
    count=st.integers(1, 70),
    before=steps_of(USUAL_LORAS),
    after=steps_of(USUAL_LORAS),
    place=st.sampled_from(PLACES),
)
def test_the_numbers_of_a_token_do_not_depend_on_its_company(
    lora: DecoderLora | None, count: int, before: Any, after: Any, place: tuple[int, str]
) -> None:
    begin = sum(tokens for _, tokens in before)
    parts = [*before, (lora, count), *after]
    inputs, outputs = random_states(USUAL, place[1], sum(tokens for _, tokens in parts))
    together = added(parts, inputs, outputs, place, LoraStacks())
    for row in {begin, begin + count // 2, begin + count - 1}:
        alone = added([(lora, 1)], inputs[row : row + 1], outputs[row : row + 1], place, None)
        assert torch.equal(together[row : row + 1], alone)


@pytest.mark.parametrize("rank", [1, 11, 64])
@pytest.mark.parametrize(("inputs_size", "outputs_size"), [(1536, 576), (576, 192)])
def test_a_decoded_token_has_the_same_numbers_in_batches_of_1_and_64_and_in_a_prompt(
    rank: int, inputs_size: int, outputs_size: int
) -> None:
    shape, projection = SmallDecoder(layers=1, hidden=inputs_size, keys=outputs_size), "key"
    place = (0, projection)
    loras = [random_lora(shape, {place: rank}, seed) for seed in range(8)]
    inputs, outputs = random_states(shape, projection, 64)
    distinct = added([(loras[row % 8], 1) for row in range(64)], inputs, outputs, place, LoraStacks())
    prompts = [added([(lora, 64)], inputs, outputs, place, None) for lora in loras]
    for row in range(64):
        lora, own = loras[row % 8], slice(row, row + 1)
        alone = added([(lora, 1)], inputs[own], outputs[own], place, LoraStacks())
        assert torch.equal(distinct[own], alone)
        assert torch.equal(prompts[row % 8][own], alone)


@pytest.mark.parametrize("parts", [[], [(None, 5)], [(None, 4), (full_lora(SHAPE, 4), 0), (None, 1)]])
def test_nothing_is_added_where_no_token_has_a_lora(parts: Parts) -> None:
    inputs, outputs = random_states(SHAPE, "query", sum(count for _, count in parts))
    assert torch.equal(added(parts, inputs, outputs, (0, "query"), LoraStacks()), outputs)


def test_a_whole_forward_pass_uses_one_plan() -> None:
    parts = [(full_lora(SHAPE, 4, 1), 1), (full_lora(SHAPE, 4, 2), 2), (LORAS[7], 1), (None, 1)]
    deltas = LoraDeltas(parts, LoraStacks())
    for layer in range(SHAPE.layers):
        for readers in (("query", "key", "value"), ("output",), ("up", "gate"), ("down",)):
            inputs, _ = random_states(SHAPE, readers[0], 5, seed=layer)
            for projection in readers:
                _, outputs = random_states(SHAPE, projection, 5)
                expected = looped(parts, layer, projection, inputs, outputs)
                result = deltas(layer, projection, inputs, outputs)
                torch.testing.assert_close(result.double(), expected, rtol=1e-5, atol=1e-5)


def test_a_plan_may_change_one_tensor_by_an_adapter_again_and_again() -> None:
    parts = [(full_lora(SHAPE, 4, 1), 2), (None, 1), (full_lora(SHAPE, 4, 2), 1), (LORAS[9], 1)]
    deltas, place = LoraDeltas(parts, LoraStacks()), (0, "adapter")
    states, _ = random_states(SHAPE, "adapter", 5)
    once = looped(parts, *place, states, states)
    twice = looped(parts, *place, once, once)
    for _ in range(2):
        deltas(*place, states, states)
    torch.testing.assert_close(states.double(), twice, rtol=1e-5, atol=1e-5)


def test_a_token_that_is_not_finite_stays_alone_with_it() -> None:
    parts = [(full_lora(SHAPE, 4, seed), count) for seed, count in enumerate([1, 2, 1, 20])]
    inputs, outputs = random_states(SHAPE, "query", 24)
    inputs[1] = math.nan
    results = added(parts, inputs, outputs, (0, "query"), LoraStacks())
    assert results.isnan().any(1).tolist() == [row == 1 for row in range(24)]
