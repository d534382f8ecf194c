"""Fragments of running text, of any length."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.training.ngrams import EDGE, FULL, PAIR, TOKEN, TRIGRAM, Packing, Window

MISSING = 100
sequences = st.lists(st.lists(st.integers(0, MISSING - 1), min_size=1, max_size=9), min_size=1, max_size=5)
lengths = st.integers(2, 5)


def rows(found: np.ndarray) -> list[tuple[int, ...]]:
    return sorted(tuple(row) for row in found.tolist())


def around(ids: list[int], at: int, places: range) -> tuple[int, ...]:
    """The ids at these distances from a place, MISSING where the text has ended."""
    return tuple(ids[at + by] if 0 <= at + by < len(ids) else MISSING for by in places)


@given(sequences, lengths)
def test_every_token_has_one_window_that_sees_its_own_text_only(texts: list[list[int]], n: int) -> None:
    window = Window(n, MISSING)
    found = window.of_sequences([np.array(ids, dtype=np.int64) for ids in texts])
    places = range(-(n // 2), n - n // 2)
    expected = [around(ids, at, places) for ids in texts for at in range(len(ids))]
    assert rows(np.concatenate((found[FULL], found[EDGE]))) == sorted(expected)
    assert all(MISSING not in row for row in found[FULL].tolist())
    assert all(MISSING in row for row in found[EDGE].tolist())


@given(sequences, lengths)
def test_shorter_fragments_stand_around_the_middle(texts: list[list[int]], n: int) -> None:
    window = Window(n, MISSING)
    found = window.of_sequences([np.array(ids, dtype=np.int64) for ids in texts])
    assert set(found) == set(window.kinds)
    middle = n // 2
    assert sorted(found[TOKEN][:, middle].tolist()) == sorted(id_ for ids in texts for id_ in ids)
    if n > 2:
        pairs = [pair for ids in texts for pair in pairwise(ids)]
        assert rows(found[PAIR][:, middle - 1 : middle + 1]) == sorted(pairs)
        assert (np.delete(found[PAIR], [middle - 1, middle], axis=1) == MISSING).all()
    if n > 3:
        threes = [three for ids in texts for three in zip(ids, ids[1:], ids[2:], strict=False)]
        assert rows(found[TRIGRAM][:, middle - 1 : middle + 2]) == sorted(threes)


def test_a_pair_is_a_bigram_of_both_its_tokens() -> None:
    pairs = Window(3, MISSING).both_bigrams(np.array([[4, 5, MISSING]]))
    assert pairs.tolist() == [[4, 5, MISSING], [MISSING, 4, 5]]
    assert Window(2, MISSING).both_bigrams(np.array([[4, 5]])).tolist() == [[4, 5]]


@given(
    n=lengths,
    vocabulary=st.sampled_from([10, 30_522, 50_265, 250_002, 2_000_000]),
    seed=st.integers(0, 1000),
)
def test_packed_fragments_come_back_and_keep_their_order(n: int, vocabulary: int, seed: int) -> None:
    packing = Packing(Window(n, vocabulary))
    fragments = np.random.default_rng(seed).integers(0, vocabulary + 1, (20, n))
    words = packing.pack(fragments)
    assert len(words) == packing.words
    assert packing.unpack(words).tolist() == fragments.tolist()
    by_words = sorted(range(20), key=lambda row: [word[row] for word in words])
    assert [fragments[row].tolist() for row in by_words] == sorted(fragments.tolist())


@pytest.mark.parametrize(("n", "vocabulary", "words"), [(3, 30_522, 1), (3, 250_002, 1), (5, 30_522, 2)])
def test_a_fragment_takes_few_numbers(n: int, vocabulary: int, words: int) -> None:
    assert Packing(Window(n, vocabulary)).words == words
