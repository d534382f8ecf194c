"""Which worker a request goes to, who waits, who moves, and when workers come and go (Punica, section 5)."""

from collections.abc import Iterable, Sequence

import pytest

from inference.errors import HplmError
from inference.generation.limits import GenerationLimits
from inference.generation.placement import Add, Cancel, Command, Placement, Scaling
from inference.generation.working_set import Attempt, WorkerLimits

BLOCK = 4
SHORT = [1, 2, 3]
"""A prompt that takes one block, with room for its first token."""
FIVE = (7, 7, 7, 7, 7)
"""So many tokens after a short prompt take it to three blocks."""


def cluster(workers: int, *, rows: int = 4, blocks: int = 8) -> Placement:
    engine = GenerationLimits(
        context=blocks * BLOCK, vocabulary=8, blocks=blocks, block_size=BLOCK, sequences=rows
    )
    placement = Placement(WorkerLimits(engine, growth_blocks=1))
    for worker in range(workers):
        placement.add_worker(worker)
    return placement


def rows(placement: Placement) -> list[int]:
    return [working.rows for working in placement.workers]


def waiting(placement: Placement) -> list[str]:
    return [request.request_id for request in placement.waiting]


def places(commands: Sequence[Command]) -> list[tuple[str, int]]:
    """Who is added where."""
    return [(one.attempt.request_id, one.worker) for one in commands if isinstance(one, Add)]


def fill(placement: Placement, names: str, *, prompt: Sequence[int] = SHORT) -> None:
    for name in names:
        placement.add(name, prompt, 8)


def end(placement: Placement, worker: int, names: Iterable[str]) -> list[Command]:
    return placement.record(worker, {}, [Attempt(name, 1) for name in names])


def test_the_first_request_goes_to_the_highest_id() -> None:
    assert places(cluster(3).add("a", SHORT, 8)) == [("a", 2)]


def test_a_request_goes_to_the_busiest_worker() -> None:
    placement = cluster(2, rows=3)
    fill(placement, "abcd")
    assert rows(placement) == [1, 3]
    end(placement, 1, "bc")
    end(placement, 1, "a")
    assert rows(placement) == [1, 0]
    assert places(placement.add("e", SHORT, 8)) == [("e", 0)]


def test_a_worker_without_enough_free_blocks_is_passed_over() -> None:
    placement = cluster(2, blocks=4)
    fill(placement, "a")
    assert places(placement.add("long", range(3 * BLOCK), 4)) == [("long", 0)]


def test_the_next_token_of_a_prompt_that_fills_its_blocks_takes_another_one() -> None:
    placement = cluster(2, blocks=5)
    fill(placement, "a")
    assert places(placement.add("long", range(2 * BLOCK), 4)) == [("long", 0)]


@pytest.mark.parametrize(("blocks", "worker"), [(5, 0), (6, 1)])
def test_a_worker_keeps_a_free_block_for_each_of_its_requests(blocks: int, worker: int) -> None:
    placement = cluster(2, blocks=blocks)
    fill(placement, "ab")
    assert rows(placement) == [0, 2]
    assert places(placement.add("c", SHORT, 8)) == [("c", worker)]


def test_a_request_that_no_worker_can_ever_hold_is_refused() -> None:
    placement = cluster(1, blocks=4)
    with pytest.raises(HplmError, match=r"max_tokens is 4; .* 3 of 16 tokens are left") as refused:
        placement.add("long", range(13), 4)
    assert refused.value.code == "invalid_field"
    assert rows(placement) == [0]


def test_what_fits_nowhere_waits_and_no_shorter_request_passes_it() -> None:
    placement = cluster(1, blocks=4)
    fill(placement, "a")
    assert placement.add("long", range(3 * BLOCK), 4) == []
    assert placement.add("short", SHORT, 8) == []
    assert waiting(placement) == ["long", "short"]
    assert places(end(placement, 0, "a")) == [("long", 0)]
    assert waiting(placement) == ["short"]


def test_cancelling_one_who_waits_lets_those_behind_it_go_on() -> None:
    placement = cluster(1, blocks=4)
    fill(placement, "a")
    placement.add("long", range(3 * BLOCK), 4)
    placement.add("short", SHORT, 8)
    assert places(placement.cancel("long")) == [("short", 0)]


def test_cancelling_a_running_request_frees_its_worker_for_the_next() -> None:
    placement = cluster(1, rows=1)
    fill(placement, "ab")
    cancelled, added = placement.cancel("a")
    assert cancelled == Cancel(0, Attempt("a", 1))
    assert added == Add(0, Attempt("b", 1), SHORT, ())


def test_a_worker_out_of_blocks_gives_its_newest_request_away_with_its_tokens() -> None:
    placement = cluster(2, blocks=4)
    fill(placement, "ab")
    assert rows(placement) == [0, 2]
    commands = placement.record(1, {Attempt("a", 1): FIVE, Attempt("b", 1): FIVE})
    assert commands == [Cancel(1, Attempt("b", 1)), Add(0, Attempt("b", 2), SHORT, FIVE)]


def test_two_workers_or_requests_of_one_id_are_a_mistake() -> None:
    placement = cluster(1)
    fill(placement, "a")
    with pytest.raises(ValueError, match="worker 0 is already there"):
        placement.add_worker(0)
    with pytest.raises(ValueError, match="request a is already there"):
        placement.add("a", SHORT, 8)


def test_consolidation_moves_the_requests_of_a_lightly_loaded_worker_to_a_busier_one() -> None:
    placement = cluster(2)
    fill(placement, "abcdef")
    placement.record(0, {Attempt("e", 1): [7]}, [Attempt("f", 1)])
    end(placement, 1, "ab")
    assert rows(placement) == [1, 2]
    assert placement.consolidate() == [Cancel(0, Attempt("e", 1)), Add(1, Attempt("e", 2), SHORT, (7,))]
    assert placement.scaling().release == ()
    end(placement, 1, "c")
    assert placement.scaling().release == (0,)


def test_consolidation_moves_nothing_from_a_worker_that_it_cannot_empty() -> None:
    placement = cluster(2)
    fill(placement, "abcdef")
    end(placement, 1, "a")
    assert rows(placement) == [2, 3]
    assert placement.consolidate() == []


def test_as_many_workers_are_needed_as_those_that_wait_would_fill() -> None:
    placement = cluster(1, rows=2)
    fill(placement, "abcde")
    assert placement.scaling() == Scaling(add=2, release=())


def test_idle_workers_are_released_beside_a_lightly_loaded_one() -> None:
    placement = cluster(3)
    fill(placement, "a")
    assert placement.scaling() == Scaling(add=0, release=(0, 1))


def test_one_idle_worker_stays_when_no_other_is_lightly_loaded() -> None:
    placement = cluster(3)
    fill(placement, "abc")
    assert placement.scaling() == Scaling(add=0, release=(0,))
    assert cluster(2).scaling() == Scaling(add=0, release=(0,))


def test_without_workers_one_is_needed_and_requests_wait_for_it() -> None:
    placement = cluster(0)
    assert placement.scaling() == Scaling(add=1, release=())
    assert placement.add("a", SHORT, 8) == []
    assert places(placement.add_worker(4)) == [("a", 4)]
