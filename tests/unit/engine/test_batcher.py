"""Which rows go into a step."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.engine.batcher import BatchLimits, next_batch

lengths_of_rows = st.lists(st.integers(2, 128), max_size=60)
all_limits = st.builds(BatchLimits, rows=st.integers(1, 40), tokens=st.integers(1, 2000))


@given(lengths_of_rows, all_limits)
def test_the_oldest_row_goes_and_the_limits_hold(lengths: list[int], limits: BatchLimits) -> None:
    chosen = next_batch(lengths, limits)
    assert chosen[:1] == list(range(len(lengths)))[:1]
    assert chosen == sorted(set(chosen))
    assert len(chosen) <= limits.rows
    if len(chosen) > 1:
        assert max(lengths[at] for at in chosen) * len(chosen) <= limits.tokens


@given(lengths_of_rows, all_limits)
def test_taking_batch_after_batch_serves_every_row_once(lengths: list[int], limits: BatchLimits) -> None:
    waiting = list(enumerate(lengths))
    served = []
    while waiting:
        chosen = next_batch([length for _, length in waiting], limits)
        served += [waiting[at][0] for at in chosen]
        waiting = [row for at, row in enumerate(waiting) if at not in chosen]
    assert sorted(served) == list(range(len(lengths)))


def test_company_is_chosen_by_length() -> None:
    assert next_batch([50, 5, 49, 128, 51], BatchLimits(rows=3, tokens=10_000)) == [0, 2, 4]


def test_a_batch_is_filled_when_nothing_forbids_it() -> None:
    assert len(next_batch([8] * 100, BatchLimits(rows=32, tokens=256))) == 32


@pytest.mark.parametrize(("rows", "tokens"), [(0, 1), (1, 0)])
def test_limits_without_room_are_refused(rows: int, tokens: int) -> None:
    with pytest.raises(ValueError, match="room"):
        BatchLimits(rows, tokens)
