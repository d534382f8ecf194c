"""Blocks are shared by sequences of one model that begin alike, and kept for the next such sequence."""

from dataclasses import replace
from typing import Any

import pytest

from inference.generation.block_manager import BlockManager, IntegrityError
from inference.generation.sequence import Sequence
from tests.unit.inference.generation.worlds import a_model, a_request

SIZE = 4
FIRST, SECOND = tuple(range(8)), tuple(range(10, 18))
"""Prompts of two full blocks."""


def a_sequence(prompt: tuple[int, ...], model: str = "writer") -> Sequence:
    return Sequence(a_request("r", prompt, model=a_model(name=model)), 0)


def computed(manager: BlockManager, prompt: tuple[int, ...], model: str = "writer") -> Sequence:
    """A sequence with blocks, all of whose tokens are computed."""
    sequence = a_sequence(prompt, model)
    assert manager.allocate(sequence)
    manager.advance(sequence, sequence.new_tokens)
    return sequence


def cached(manager: BlockManager, prompt: tuple[int, ...]) -> int:
    """How many tokens of the prompt need no computing."""
    sequence = a_sequence(prompt)
    assert manager.allocate(sequence)
    count = sequence.computed
    manager.release(sequence)
    return count


def test_sequences_that_begin_alike_share_full_blocks() -> None:
    manager = BlockManager(8, SIZE)
    one, other = computed(manager, (*FIRST, 30, 31)), a_sequence((*FIRST, 40))
    assert manager.allocate(other)
    assert other.block_table[:2] == one.block_table[:2]
    assert other.block_table[2] != one.block_table[2]
    assert (other.computed, other.new_tokens) == (8, 1)
    assert manager.available == 8 - 4
    manager.release(one)
    manager.check_integrity([other])


def test_a_block_is_shared_when_it_is_computed_and_not_before() -> None:
    manager = BlockManager(8, SIZE)
    one = a_sequence((*FIRST, 30))
    assert manager.allocate(one)
    manager.advance(one, 5)
    other = a_sequence((*FIRST, 30))
    assert manager.allocate(other)
    assert other.computed == 4


def test_the_last_token_of_a_cached_prompt_is_left_to_compute() -> None:
    manager = BlockManager(8, SIZE)
    manager.release(computed(manager, FIRST))
    again = a_sequence(FIRST)
    assert manager.allocate(again)
    assert (again.computed, again.new_tokens) == (4, 4)


@pytest.mark.parametrize("change", [{"digest": "of another model"}, {"tenant": "globex"}])
def test_neither_models_nor_tenants_with_the_same_model_share_blocks(change: dict[str, Any]) -> None:
    manager = BlockManager(8, SIZE)
    manager.release(computed(manager, (*FIRST, 30)))
    request = a_request("r", (*FIRST, 30))
    other = Sequence(replace(request, model=replace(request.model, **change)), 0)
    assert manager.allocate(other)
    assert other.computed == 0


def test_equal_blocks_after_different_beginnings_are_not_shared() -> None:
    manager = BlockManager(8, SIZE)
    manager.release(computed(manager, (*FIRST, 30)))
    other = a_sequence((9, *FIRST[1:], 30))
    assert manager.allocate(other)
    assert other.computed == 0


def test_the_prefix_used_least_recently_is_evicted_from_its_end() -> None:
    manager = BlockManager(5, SIZE)
    manager.release(computed(manager, FIRST))
    manager.release(computed(manager, SECOND))
    assert cached(manager, (*FIRST, 30)) == 8
    # Needs two blocks: one is free, one is that of the end of the second prompt.
    manager.release(computed(manager, (20, 21, 22, 23, 24)))
    assert cached(manager, (*FIRST, 30)) == 8
    assert cached(manager, (*SECOND, 30)) == 4


def test_blocks_that_are_not_reusable_are_not_shared() -> None:
    manager = BlockManager(4, SIZE)
    manager.release(computed(manager, FIRST), reusable=False)
    assert cached(manager, (*FIRST, 30)) == 0
    assert manager.available == 4


def test_what_finds_no_blocks_gets_none() -> None:
    manager = BlockManager(4, SIZE)
    one = computed(manager, FIRST)
    other = a_sequence((*FIRST, *range(20, 26)))
    assert not manager.allocate(other, reserve=1)
    assert (other.block_table, other.computed, manager.available) == ([], 0, 2)
    manager.check_integrity([one])
    assert manager.allocate(other)
    other.tokens += [30, 31, 32]
    assert not manager.grow(other)
    assert len(other.block_table) == 4
    manager.check_integrity([one, other])


def test_blocks_of_a_sequence_that_is_gone_are_found() -> None:
    manager = BlockManager(4, SIZE)
    computed(manager, FIRST)
    with pytest.raises(IntegrityError, match="the users of the blocks"):
        manager.check_integrity([])
