"""Metrics against values computed by hand."""

import pytest

from workers.training.metrics import (
    classification_scores,
    most_frequent,
    tag_by_word,
    tagging_scores,
    usual_tags,
    well_formed,
)


def test_accuracy_macro_f1_and_the_majority_class() -> None:
    expected = ["a", "a", "a", "b", "c"]
    predicted = ["a", "a", "b", "b", "a"]
    scores = classification_scores(expected, predicted, seen=["b", "b", "a"])
    assert scores["value"] == pytest.approx(3 / 5)
    # a: precision 2/3, recall 2/3; b: precision 1/2, recall 1; c: never predicted.
    assert scores["macro_f1"] == pytest.approx((2 / 3 + 2 / 3 + 0) / 3)
    assert scores["majority_label"] == "b"
    assert scores["majority_baseline"] == pytest.approx(1 / 5)
    assert scores["per_label"]["a"] == pytest.approx(
        {"precision": 2 / 3, "recall": 2 / 3, "f1": 2 / 3, "support": 3}
    )


def test_a_label_the_model_never_saw_counts_as_wrong() -> None:
    scores = classification_scores(["new", "a"], ["a", "a"], seen=["a"])
    assert scores["value"] == 0.5
    assert scores["per_label"]["new"]["f1"] == 0.0


def test_entities_count_only_when_borders_and_type_are_right() -> None:
    expected = [["B-x", "I-x", "O", "B-y"], ["B-x", "O"]]
    predicted = [["B-x", "I-x", "O", "B-x"], ["B-x", "I-x"]]
    scores = tagging_scores([["p", "q", "r", "s"], ["t", "u"]], expected, predicted, seen=[(["p"], ["O"])])
    # One of three predictions is right; there are three entities.
    assert scores["precision"] == pytest.approx(1 / 3)
    assert scores["recall"] == pytest.approx(1 / 3)
    assert scores["value"] == pytest.approx(1 / 3)
    assert scores["word_accuracy"] == pytest.approx(4 / 6)
    assert scores["per_label"]["y"]["f1"] == 0.0


def test_an_entity_without_a_beginning_is_none_under_strict_iob2() -> None:
    scores = tagging_scores([["p", "q"]], [["B-x", "I-x"]], [["I-x", "I-x"]], seen=[(["p"], ["O"])])
    assert scores["value"] == 0.0


def test_the_trivial_taggers_stand_beside_the_model() -> None:
    seen = [(["Acme", "pays", "acme"], ["B-org", "O", "B-org"]), (["acme", "Corp"], ["O", "I-org"])]
    words, tags = [["ACME", "corp", "rises"]], [["B-org", "I-org", "O"]]
    scores = tagging_scores(words, tags, [["O", "O", "O"]], seen=seen)
    assert scores["value"] == 0.0
    assert scores["majority_baseline"] == 0.0
    assert scores["word_baseline"] == 1.0


def test_texts_without_any_entity_score_zero_and_do_not_fail() -> None:
    assert tagging_scores([["p"]], [["O"]], [["O"]], seen=[(["p"], ["O"])])["value"] == 0.0


def test_usual_tags_are_made_well_formed() -> None:
    usual = usual_tags([(["new", "york"], ["B-l", "I-l"])])
    assert tag_by_word(["york", "new", "york", "x"], usual) == ["B-l", "B-l", "I-l", "O"]
    assert well_formed(["I-a", "I-b", "O", "I-b"]) == ["B-a", "B-b", "O", "B-b"]


def test_ties_go_to_the_alphabetically_first() -> None:
    assert most_frequent(["b", "a"]) == "a"
