"""Algorithm 2 of PetS: groups of neighbors in intensity, and what streams gain in the model of overlap."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.pets.operator_streams import (
    SYNCHRONIZATION_S,
    Operator,
    choose_streams,
    in_turn,
    makespan,
    schedule,
)
from benchmarks.serving.sgmv import Roof

ROOF = Roof(flop=100.0, bytes=100.0)
OPERATORS = st.lists(
    st.builds(Operator, st.floats(1, 1e3), st.floats(1, 1e3), st.floats(10, 1e3)), min_size=1, max_size=40
)


@given(OPERATORS, st.integers(1, 8))
def test_groups_are_neighbors_in_ascending_intensity_and_no_more_than_the_streams(
    operators: list[Operator], streams: int
) -> None:
    groups = schedule(operators, streams)
    assert 1 <= len(groups) <= streams
    assert all(groups)
    flat = [operator for group in groups for operator in group]
    assert sorted(map(id, flat)) == sorted(map(id, operators))
    assert [operator.intensity for operator in flat] == sorted(operator.intensity for operator in operators)
    assert len({*map(len, groups[:-1])}) <= 1
    assert len(groups[-1]) <= len(groups[0])


def test_more_operators_than_the_square_of_the_streams_find_a_stream() -> None:
    operators = [Operator(1.0 + at, 1.0, 1.0) for at in range(10)]
    assert [len(group) for group in schedule(operators, 2)] == [5, 5]


@given(OPERATORS)
def test_one_stream_takes_as_long_as_the_operators_in_turn(operators: list[Operator]) -> None:
    assert makespan([operators], ROOF) == pytest.approx(
        sum(
            operator.seconds
            * max(1, operator.flop / operator.seconds / 100, operator.bytes / operator.seconds / 100)
            for operator in operators
        )
    )


def test_operators_overlap_only_where_they_need_different_resources() -> None:
    products, traffic = Operator(90.0, 10.0, 1.0), Operator(10.0, 90.0, 1.0)
    assert makespan([[products], [traffic]], ROOF) == pytest.approx(1.0 + SYNCHRONIZATION_S)
    assert makespan([[products], [products]], ROOF) == pytest.approx(1.8 + SYNCHRONIZATION_S)
    assert makespan([[products], [traffic]], ROOF, joins=10) == pytest.approx(1.0 + 10 * SYNCHRONIZATION_S)


def test_operators_in_turn_use_all_streams_that_they_can() -> None:
    operators = [Operator(1.0, 1.0, 1.0)] * 3
    assert [len(stream) for stream in in_turn(operators, 2)] == [2, 1]
    assert len(in_turn(operators, 8)) == 3


def test_short_inputs_have_few_streams() -> None:
    assert (choose_streams(4, threshold=8), choose_streams(64, threshold=8)) == (2, 32)


def test_operators_need_a_stream() -> None:
    with pytest.raises(ValueError, match="stream"):
        schedule([], 0)
