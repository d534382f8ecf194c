"""Metrics against values computed by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics import classification_report
from seqeval.scheme import IOB2

from workers.training.metrics import (
    answer_metrics,
    classification_metrics,
    most_frequent,
    most_frequent_tags,
    multilabel_metrics,
    regression_metrics,
    tag_by_word,
    tagging_metrics,
    well_formed,
)


def test_accuracy_macro_f1_and_the_majority_class() -> None:
    expected = ["a", "a", "a", "b", "c"]
    predicted = ["a", "a", "b", "b", "a"]
    scores = classification_metrics(expected, predicted, train=["b", "b", "a"])
    assert scores["value"] == pytest.approx(3 / 5)
    # a: precision 2/3, recall 2/3; b: precision 1/2, recall 1; c: never predicted.
    assert scores["macro_f1"] == pytest.approx((2 / 3 + 2 / 3 + 0) / 3)
    assert scores["majority_label"] == "b"
    assert scores["majority_baseline"] == pytest.approx(1 / 5)
    assert scores["per_label"]["a"] == pytest.approx(
        {"precision": 2 / 3, "recall": 2 / 3, "f1": 2 / 3, "support": 3}
    )


def test_a_label_the_model_never_saw_counts_as_wrong() -> None:
    scores = classification_metrics(["new", "a"], ["a", "a"], train=["a"])
    assert scores["value"] == 0.5
    assert scores["per_label"]["new"]["f1"] == 0.0


def test_entities_count_only_when_borders_and_type_are_right() -> None:
    expected = [["B-x", "I-x", "O", "B-y"], ["B-x", "O"]]
    predicted = [["B-x", "I-x", "O", "B-x"], ["B-x", "I-x"]]
    scores = tagging_metrics([["p", "q", "r", "s"], ["t", "u"]], expected, predicted, train=[(["p"], ["O"])])
    # One of three predictions is right; there are three entities.
    assert scores["precision"] == pytest.approx(1 / 3)
    assert scores["recall"] == pytest.approx(1 / 3)
    assert scores["value"] == pytest.approx(1 / 3)
    assert scores["word_accuracy"] == pytest.approx(4 / 6)
    assert scores["per_label"]["y"]["f1"] == 0.0


def test_an_entity_without_a_beginning_is_none_under_strict_iob2() -> None:
    scores = tagging_metrics([["p", "q"]], [["B-x", "I-x"]], [["I-x", "I-x"]], train=[(["p"], ["O"])])
    assert scores["value"] == 0.0


TAGS = st.sampled_from(["O", "B-drug", "I-drug", "B-gene", "I-gene"])


@pytest.mark.filterwarnings("ignore::UserWarning")  # of types without predictions
@given(st.lists(st.lists(st.tuples(TAGS, TAGS), min_size=1, max_size=8), min_size=1, max_size=4))
def test_the_figures_of_entities_are_those_of_seqeval(rows: list[list[tuple[str, str]]]) -> None:
    expected, predicted = ([[pair[side] for pair in row] for row in rows] for side in (0, 1))
    scores = tagging_metrics(predicted, expected, predicted, train=[(["p"], ["O"])])
    # seqeval refuses texts without any entity; another row changes no type that it has not.
    reference = classification_report(
        [*expected, ["B-other"]],
        [*predicted, ["O"]],
        output_dict=True,
        mode="strict",
        scheme=IOB2,
        zero_division=0,
    )
    types = {name: row for name, row in reference.items() if name != "other" and not name.endswith(" avg")}
    assert list(scores["per_label"]) == list(types)
    for name, row in types.items():
        found = scores["per_label"][name]
        assert (found["precision"], found["recall"], found["f1"], found["support"]) == pytest.approx(
            tuple(row[figure] for figure in ("precision", "recall", "f1-score", "support"))
        )


def test_the_trivial_taggers_stand_beside_the_model() -> None:
    seen = [(["Acme", "pays", "acme"], ["B-org", "O", "B-org"]), (["acme", "Corp"], ["O", "I-org"])]
    words, tags = [["ACME", "corp", "rises"]], [["B-org", "I-org", "O"]]
    scores = tagging_metrics(words, tags, [["O", "O", "O"]], train=seen)
    assert scores["value"] == 0.0
    assert scores["majority_baseline"] == 0.0
    assert scores["word_baseline"] == 1.0


def test_texts_without_any_entity_score_zero_and_do_not_fail() -> None:
    assert tagging_metrics([["p"]], [["O"]], [["O"]], train=[(["p"], ["O"])])["value"] == 0.0


def test_most_frequent_tags_are_made_well_formed() -> None:
    usual = most_frequent_tags([(["new", "york"], ["B-l", "I-l"])])
    assert tag_by_word(["york", "new", "york", "x"], usual) == ["B-l", "B-l", "I-l", "O"]
    assert well_formed(["I-a", "I-b", "O", "I-b"]) == ["B-a", "B-b", "O", "B-b"]


def test_ties_go_to_the_alphabetically_first() -> None:
    assert most_frequent(["b", "a"]) == "a"


def test_confusion_counts_expected_by_predicted_labels() -> None:
    scores = classification_metrics(["a", "a", "b"], ["a", "c", "a"], train=["a"])
    assert scores["confusion"] == {"labels": ["a", "b", "c"], "rows": [[1, 0, 1], [1, 0, 0], [0, 0, 0]]}
    assert scores["macro_f1"] == pytest.approx((1 / 2 + 0) / 2)


def test_a_label_may_be_called_as_a_metric_is() -> None:
    assert (
        classification_metrics(["accuracy", "macro avg"], ["accuracy"] * 2, train=["accuracy"])["value"]
        == 0.5
    )
    assert multilabel_metrics([("micro avg",)], [("micro avg",)], train=[()])["value"] == 1.0


def test_sets_of_labels_are_counted_label_by_label() -> None:
    expected = [("a", "b"), ("b",), ()]
    predicted = [("a",), ("b", "c"), ()]
    scores = multilabel_metrics(expected, predicted, train=[("b",), ("b",), ("z",)])
    # Two of three answers are right, two of three wanted labels found.
    assert scores["value"] == pytest.approx(2 / 3)
    assert scores["exact"] == pytest.approx(1 / 3)
    # c occurs nowhere: it counts as a wrong answer, not as a label of its own.
    assert scores["macro_f1"] == pytest.approx((1 + 2 / 3) / 2)
    assert set(scores["per_label"]) == {"a", "b"}
    assert scores["per_label"]["b"] == pytest.approx(
        {"precision": 1.0, "recall": 1 / 2, "f1": 2 / 3, "support": 2}
    )
    # Always "b": two of three answers right, two of three labels found.
    assert scores["majority_baseline"] == pytest.approx(2 / 3)


def test_numbers_are_judged_by_order_by_line_and_by_distance() -> None:
    scores = regression_metrics([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 10.0], train=[2.0, 4.0])
    assert scores["spearman"] == pytest.approx(1.0)
    # Covariance 14 over the square roots of 5 and of 50.
    assert scores["value"] == pytest.approx(14 / (5 * 50) ** 0.5)
    assert scores["mean_absolute_error"] == pytest.approx(6 / 4)
    assert scores["mean_answer_error"] == pytest.approx((2 + 1 + 0 + 1) / 4)


@pytest.mark.parametrize("predicted", [[1.0, 1.0], [2.0, 2.0]])
def test_the_same_number_for_every_text_is_no_correlation(predicted: list[float]) -> None:
    assert regression_metrics([1.0, 2.0], predicted, train=[1.0])["value"] == 0.0


@pytest.mark.parametrize(
    ("rights", "answer", "exact", "f1"),
    [
        (["The Amazon River!"], "amazon river", 1, 1),
        (["amazon river"], "long amazon", 0, 1 / 2),
        (["nile", "amazon river"], "amazon", 0, 2 / 3),
        (["amazon"], "", 0, 0),
        ([], "amazon", 0, 0),
        ([], "", 1, 1),
    ],
)
def test_answers_are_compared_as_squad_does(rights: list[str], answer: str, exact: float, f1: float) -> None:
    scores = answer_metrics([rights], [answer])
    assert (scores["exact_match"], scores["value"]) == pytest.approx((exact, f1))
    assert scores["majority_baseline"] == (not rights)
    assert scores["answered"] == bool(answer)
