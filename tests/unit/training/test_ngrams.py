"""Counting fragments and choosing those that cover a share of them."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from inference.hplm import fragments
from workers.training.ngrams import KeyCounter, count_fragments, covering

occurrences = st.lists(st.integers(0, 12), min_size=1, max_size=200)
alphas = st.one_of(st.integers(0, 100).map(float), st.floats(0, 100))


def counted(values: list[int]) -> tuple[np.ndarray, np.ndarray]:
    keys, counts = np.unique(np.asarray(values, dtype=np.int64), return_counts=True)
    return keys, counts.astype(np.int64)


@given(occurrences, alphas)
def test_the_most_frequent_keys_that_cover_alpha_percent_are_kept_and_no_more(
    values: list[int], alpha: float
) -> None:
    kept = covering(*counted(values), alpha).tolist()
    expected, covered = [], 0
    for key, count in sorted(Counter(values).items(), key=lambda item: (-item[1], item[0])):
        if alpha == 0 or covered * 100 >= alpha * len(values):
            break
        expected.append(key)
        covered += count
    assert kept == sorted(expected)


def test_nothing_is_kept_at_zero_and_everything_at_a_hundred() -> None:
    keys, counts = counted([5, 5, 5, 2, 9])
    assert covering(keys, counts, 0).tolist() == []
    assert covering(keys, counts, 100).tolist() == [2, 5, 9]
    assert covering(keys[:0], counts[:0], 50).tolist() == []


@given(st.lists(occurrences, max_size=8), st.integers(1, 50))
def test_counting_in_chunks_gives_what_counting_at_once_gives(parts: list[list[int]], chunk: int) -> None:
    counter = KeyCounter(chunk=chunk)
    for part in parts:
        counter.add(np.asarray(part, dtype=np.int64))
    keys, counts = counter.result()
    expected = Counter(value for part in parts for value in part)
    assert dict(zip(keys.tolist(), counts.tolist(), strict=True)) == expected
    assert keys.tolist() == sorted(expected)


def test_the_fragments_at_the_ends_of_a_text_are_counted_apart() -> None:
    missing = 100
    counts = count_fragments([np.array([2, 7, 8, 3]), np.array([2, 7, 8, 3])], missing)
    assert fragments.unpack(counts.trigrams[0]).tolist() == [[2, 7, 8], [7, 8, 3]]
    assert counts.trigrams[1].tolist() == [2, 2]
    assert fragments.unpack(counts.boundary).tolist() == [[8, 3, missing], [missing, 2, 7]]
    assert fragments.unpack(counts.pairs[0]).tolist() == [[2, 7, missing], [7, 8, missing], [8, 3, missing]]
    assert counts.tokens.tolist() == [2, 3, 7, 8]
