from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from seqeval.scheme import IOB2, Entities

from inference.text.encodings import outputs_at
from inference.text.predictions import best_tags, class_prediction, iob2_spans, tag_prediction
from inference.text.tokenization import Encoding, TextTokenizer
from tests.unit.tiny import tiny_tokenizer

TAGS = ("O", "B-drug", "I-drug", "B-gene", "I-gene")
TOKENIZER = TextTokenizer(tiny_tokenizer(), max_tokens=32)


def logits_for(encoding: Encoding, tags: list[str]) -> np.ndarray:
    """Logits that say `tags` at the words' first tokens, and something else everywhere else."""
    logits = np.zeros((len(encoding), len(TAGS)), dtype=np.float32)
    logits[:, TAGS.index("B-gene")] = 9
    for at, tag in zip(np.flatnonzero(encoding.word_starts), tags, strict=True):
        logits[at] = 0
        logits[at, TAGS.index(tag)] = 5
    return logits


@given(st.lists(st.sampled_from(TAGS), max_size=15))
def test_spans_are_those_that_the_strict_metric_counts(tags: list[str]) -> None:
    expected = [(e.tag, e.start, e.end) for e in Entities([tags], IOB2).entities[0]] if tags else []
    assert iob2_spans(tags) == expected


def test_a_span_is_told_by_its_characters_in_the_text_as_sent() -> None:
    text = "The ZEBRA  river, max_tokens"
    encoding = TOKENIZER.encode(text)
    logits = logits_for(encoding, ["O", "B-drug", "I-drug", "O", "B-gene"])
    first, second = tag_prediction(TAGS, logits[encoding.word_starts], encoding, text).spans
    assert (first.start, first.end, first.label, first.text) == (4, 16, "drug", "ZEBRA  river")
    assert (second.start, second.end, second.label, second.text) == (18, 28, "gene", "max_tokens")
    assert first.score == pytest.approx(np.exp(5) / (np.exp(5) + 4))


def test_only_a_words_first_token_speaks() -> None:
    encoding = TOKENIZER.encode("zebra")
    logits = logits_for(encoding, ["O"])[outputs_at("tagging", encoding)]
    assert tag_prediction(TAGS, logits, encoding, "zebra").spans == ()


@given(st.lists(st.floats(-50, 50, width=32), min_size=2, max_size=6))
def test_probabilities_sum_to_one_and_the_label_has_the_largest(logits: list[float]) -> None:
    labels = [f"l{index}" for index in range(len(logits))]
    prediction = class_prediction(labels, np.array(logits, dtype=np.float32))
    assert sum(prediction.scores.values()) == pytest.approx(1)
    assert prediction.scores[prediction.label] == max(prediction.scores.values())
    assert list(prediction.scores) == labels


def test_huge_logits_do_not_overflow() -> None:
    prediction = class_prediction(["a", "b"], np.array([3e38, -3e38], dtype=np.float32))
    assert prediction.to_json() == {"label": "a", "scores": {"a": 1.0, "b": 0.0}}


IN_ORDER = ("B-drug", "B-gene", "I-drug", "I-gene", "O")


def legal(tags: list[str]) -> bool:
    """Whether every tag but O belongs to a span."""
    covered = sum(end - first for _, first, end in iob2_spans(tags))
    return covered == sum(tag != "O" for tag in tags)


@given(
    arrays.arrays(
        np.float64,
        st.tuples(st.integers(1, 4), st.just(len(IN_ORDER))),
        elements=st.floats(-20, 20, width=32),
    )
)
@settings(max_examples=60, deadline=None)
def test_no_legal_sequence_is_likelier_than_the_one_that_is_found(logits: np.ndarray) -> None:
    found = best_tags(IN_ORDER, logits)
    assert legal([IN_ORDER[index] for index in found])
    words = np.arange(len(logits))
    every = product(range(len(IN_ORDER)), repeat=len(logits))
    best = max(
        logits[words, list(tags)].sum() for tags in every if legal([IN_ORDER[index] for index in tags])
    )
    assert logits[words, found].sum() == pytest.approx(best)


def test_a_span_that_lost_its_beginning_is_mended_by_what_its_words_say_together() -> None:
    wanted = np.log(np.array([[0.40, 0.0, 0.15, 0.0, 0.45], [0.02, 0.0, 0.90, 0.0, 0.08]]) + 1e-9)
    assert [IN_ORDER[index] for index in best_tags(IN_ORDER, wanted)] == ["B-drug", "I-drug"]


def test_an_empty_sentence_has_no_tags() -> None:
    assert best_tags(IN_ORDER, np.zeros((0, len(IN_ORDER)))).shape == (0,)


def test_labels_without_a_legal_sequence_still_get_an_answer() -> None:
    assert best_tags(("I-x",), np.zeros((2, 1))).tolist() == [0, 0]
