"""The likeliest legal tags of a sentence."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from inference.text.predictions import best_tags, iob2_spans

TAGS = ("B-drug", "B-gene", "I-drug", "I-gene", "O")


def legal(tags: list[str]) -> bool:
    """Whether every tag but O belongs to a span."""
    covered = sum(end - first for _, first, end in iob2_spans(tags))
    return covered == sum(tag != "O" for tag in tags)


@given(
    arrays.arrays(
        np.float64,
        st.tuples(st.integers(1, 4), st.just(len(TAGS))),
        elements=st.floats(-20, 20, width=32),
    )
)
@settings(max_examples=60, deadline=None)
def test_no_legal_sequence_is_likelier_than_the_one_that_is_found(logits: np.ndarray) -> None:
    found = best_tags(TAGS, logits)
    assert legal([TAGS[index] for index in found])
    words = np.arange(len(logits))
    every = product(range(len(TAGS)), repeat=len(logits))
    best = max(logits[words, list(tags)].sum() for tags in every if legal([TAGS[index] for index in tags]))
    assert logits[words, found].sum() == pytest.approx(best)


def test_a_span_that_lost_its_beginning_is_mended_by_what_its_words_say_together() -> None:
    wanted = np.log(np.array([[0.40, 0.0, 0.15, 0.0, 0.45], [0.02, 0.0, 0.90, 0.0, 0.08]]) + 1e-9)
    assert [TAGS[index] for index in best_tags(TAGS, wanted)] == ["B-drug", "I-drug"]


def test_an_empty_sentence_has_no_tags() -> None:
    assert best_tags(TAGS, np.zeros((0, len(TAGS)))).shape == (0,)


def test_labels_without_a_legal_sequence_still_get_an_answer() -> None:
    assert best_tags(("I-x",), np.zeros((2, 1))).tolist() == [0, 0]
