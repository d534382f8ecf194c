"""Which words of a text are kept (Tabi, equation 5)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.cascade.dispatcher import OUTPUT_KINDS, Dispatcher, OutputKind
from inference.cascade.pruning import kept_tokens

PRUNINGS = st.floats(0, 0.99)


@st.composite
def texts(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """The importance of each token, and the words of one text or of a pair between special tokens."""
    words, number = [-1], 0
    for _ in range(draw(st.integers(1, 2))):
        for pieces in draw(st.lists(st.integers(1, 4), max_size=6)):
            words += [number] * pieces
            number += 1
        words.append(-1)
    importance = draw(st.lists(st.floats(2**-10, 100, width=32), min_size=len(words), max_size=len(words)))
    return np.asarray(importance, np.float32), np.asarray(words)


@given(texts(), PRUNINGS)
def test_special_tokens_and_the_most_important_word_are_kept_and_words_whole(
    text: tuple[np.ndarray, np.ndarray], pruning: float
) -> None:
    importance, words = text
    kept = kept_tokens(importance, words, pruning)
    assert kept[words < 0].all()
    for word in set(words.tolist()):
        assert len(set(kept[words == word].tolist())) == 1
    inside = np.flatnonzero(words >= 0)
    if len(inside):
        assert kept[inside[importance[inside].argmax()]]


@given(texts())
def test_without_pruning_all_tokens_are_kept(text: tuple[np.ndarray, np.ndarray]) -> None:
    assert kept_tokens(*text, 0.0).all()


@given(texts(), PRUNINGS, PRUNINGS)
def test_more_pruning_keeps_no_other_tokens(
    text: tuple[np.ndarray, np.ndarray], one: float, other: float
) -> None:
    less, more = (kept_tokens(*text, pruning) for pruning in sorted((one, other)))
    assert not (more & ~less).any()


@given(texts(), PRUNINGS, st.floats(1, 1000))
def test_what_special_tokens_receive_decides_nothing(
    text: tuple[np.ndarray, np.ndarray], pruning: float, factor: float
) -> None:
    importance, words = text
    other = np.where(words < 0, factor * importance, importance)
    assert (kept_tokens(importance, words, pruning) == kept_tokens(other, words, pruning)).all()


def test_a_word_with_one_important_token_is_kept() -> None:
    importance, words = np.asarray([9, 1.0, 3.0, 1.0, 1.0, 9]), np.asarray([-1, 0, 0, 1, 2, -1])
    assert kept_tokens(importance, words, 0.6).tolist() == [True] * 5 + [True]  # the mean is 1.5
    assert kept_tokens(importance, words, 0.7).tolist() == [True, True, True, False, False, True]


@pytest.mark.parametrize("kind", OUTPUT_KINDS)
def test_outputs_for_each_token_are_not_pruned(kind: OutputKind) -> None:
    if kind in ("classes", "labels", "number"):
        assert Dispatcher(kind, pruning=0.5).pruning == 0.5
    else:
        with pytest.raises(ValueError, match="cannot be pruned"):
            Dispatcher(kind, pruning=0.5)
