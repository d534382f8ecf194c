import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from inference.hplm import fragments as fr

MISSING = 1000

any_id = st.integers(0, fr.MAX_ID)
fragment = st.tuples(any_id, any_id, any_id)
small = st.tuples(st.integers(0, MISSING), st.integers(0, MISSING - 1), st.integers(0, MISSING))


def array(rows: object) -> NDArray[np.int64]:
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


@given(st.lists(fragment))
def test_unpacking_a_key_gives_its_fragment_back(rows: list[tuple[int, int, int]]) -> None:
    assert np.array_equal(fr.unpack(fr.pack(array(rows))), array(rows))


@given(fragment, fragment)
def test_keys_order_as_fragments_do(one: tuple[int, int, int], other: tuple[int, int, int]) -> None:
    first, second = fr.pack(array([one, other])).tolist()
    assert first >= 0
    assert (first < second) == (one < other)
    assert (first == second) == (one == other)


@given(st.lists(st.integers(0, MISSING - 1), min_size=1, max_size=20))
def test_each_token_stands_in_the_middle_of_its_own_fragment(ids: list[int]) -> None:
    found = fr.extract(np.array(ids, dtype=np.int64), MISSING).tolist()
    padded = [MISSING, *ids, MISSING]
    assert found == [padded[at : at + 3] for at in range(len(ids))]


@given(small, st.sampled_from(fr.LEVELS))
def test_degrading_takes_away_just_what_the_level_lacks(row: tuple[int, int, int], level: int) -> None:
    left, centre, right = row
    expected = {
        fr.LEVEL_TRI: [left, centre, right],
        fr.LEVEL_LEFT: [left, centre, MISSING],
        fr.LEVEL_RIGHT: [MISSING, centre, right],
        fr.LEVEL_UNI: [MISSING, centre, MISSING],
    }
    original = array([row])
    assert fr.shorten(original, level, MISSING).tolist() == [expected[level]]
    assert original.tolist() == [list(row)]


def test_the_level_says_which_neighbours_are_missing() -> None:
    rows = array([(1, 2, 3), (1, 2, MISSING), (MISSING, 2, 3), (MISSING, 2, MISSING)])
    assert fr.fragment_levels(rows, MISSING).tolist() == [
        fr.LEVEL_TRI,
        fr.LEVEL_LEFT,
        fr.LEVEL_RIGHT,
        fr.LEVEL_UNI,
    ]


@given(
    st.integers(2, 5), st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=7), min_size=1, max_size=5)
)
def test_the_fragments_of_several_sequences_are_those_of_each(n: int, sequences: list[list[int]]) -> None:
    own = [np.array(ids, dtype=np.int64) for ids in sequences]
    together = fr.extract_all(own, 99, n)
    assert np.array_equal(together, np.concatenate([fr.extract(ids, 99, n) for ids in own]))
