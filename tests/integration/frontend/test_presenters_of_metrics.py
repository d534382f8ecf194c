"""What pages make of the figures that jobs report, whatever is missing among them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontend.presenters.charts import LEVELS, line_chart
from frontend.presenters.job_charts import series_of
from frontend.presenters.metrics import (
    FIGURES,
    confusion_of,
    learning_curves,
    measured_of,
    trials_of,
)
from frontend.presenters.playground import COMPUTED, ESCALATED, FROM_TABLES, TableAnswer, answer_of
from frontend.presenters.pretraining import perplexity_rows, stage_tables
from frontend.presenters.text_spans import tokenized_texts
from workers.training.metrics import (
    answer_metrics,
    classification_metrics,
    multilabel_metrics,
    regression_metrics,
    tagging_metrics,
)

TEXT = "take two tablets"
TOKENS = [
    {"of": "text", "start": start, "end": end, "level": level}
    for start, end, level in ((0, 4, "trigram"), (5, 8, "trigram"), (9, 11, "bigram"), (11, 16, "computed"))
]


def reply(**result: Any) -> dict[str, Any]:
    return {
        "results": [{"truncated": False, "level": "table", "tokens": TOKENS, **result}],
        "model": {"name": "acme/a", "version": 1, "digest": "f" * 64},
        "timings_ms": {"total": 4, "queue": 1, "retrieval": 1, "adapter_load": 1, "compute": 1},
        "plot": {"trigram": 6, "bigram": 1, "unigram": 1},
    }


@pytest.mark.parametrize(
    ("result", "headline", "muted"),
    [
        ({"label": "a", "scores": {"a": 0.9, "b": 0.1}}, "a", False),
        ({"labels": ["a", "b"], "scores": {"a": 0.9, "b": 0.8, "c": 0.1}}, "a, b", False),
        ({"labels": [], "scores": {"a": 0.2}}, "No label", True),
        ({"value": 3.14159}, "3.142", False),
        ({"answer": "two tablets", "start": 5, "end": 16, "score": 0.7}, "two tablets", False),
        (
            {"answer": None, "start": None, "end": None, "score": 0.7},
            "No answer in the context",
            True,
        ),
    ],
)
def test_every_kind_of_answer_has_its_headline(result: dict[str, Any], headline: str, muted: bool) -> None:
    answer = answer_of({"text": TEXT}, reply(**result))
    assert (answer.headline, answer.muted) == (headline, muted)
    assert [part.figure for part in answer.hits] == ["50%", "25%", "0%", "25%"]
    assert [(part.name, part.figure) for part in answer.times][-1] == ("Other", "0.0 ms")


def test_an_answer_says_how_it_was_made_and_what_the_tables_gave() -> None:
    scores = {"a": 0.9, "b": 0.1}
    plain = answer_of({"text": TEXT}, reply(label="a", scores=scores, confidence=0.9))
    assert (plain.level, plain.confidence, plain.table) == (FROM_TABLES, "90.0%", None)
    number = answer_of({"text": TEXT}, reply(value=2.5, level="full"))
    assert (number.level, number.confidence, number.table) == (COMPUTED, "", None)
    table = {"label": "b", "scores": {"a": 0.4, "b": 0.6}, "confidence": 0.6}
    gone_on = answer_of({"text": TEXT}, reply(label="a", scores=scores, level="full", table=table))
    assert (gone_on.level, gone_on.table) == (ESCALATED, TableAnswer("b", "60.0%", same=False))
    spans = reply(spans=[], level="full", table={"spans": [], "confidence": 0.5})
    assert answer_of({"text": TEXT}, spans).table == TableAnswer("No span", "50.0%", same=True)


def test_an_answer_is_marked_where_it_stands() -> None:
    answered = reply(answer="two tablets", start=5, end=16, score=0.7)
    answer = answer_of({"question": "How many?", "context": TEXT}, answered)
    assert [(piece.text, piece.label) for piece in answer.pieces] == [
        ("take ", ""),
        ("two tablets", "answer"),
    ]
    quiet = answer_of({"text": TEXT}, reply(labels=["b"], scores={"a": 0.9, "b": 0.8})).bars
    assert [(bar.name, bar.quiet) for bar in quiet] == [("a", True), ("b", False)]


@given(
    st.text(),
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.sampled_from(sorted(LEVELS)))),
)
def test_a_text_in_tokens_is_the_text_however_they_overlap(
    text: str, spans: list[tuple[int, int, str]]
) -> None:
    """Byte-level tokens share the characters that they are parts of."""
    tokens = [
        {"of": "text", "start": start, "end": min(end, len(text)), "level": level}
        for start, end, level in sorted(spans)
    ]
    [shown] = tokenized_texts({"text": text}, tokens)
    assert "".join(shade.text for shade in shown.tokens) == text
    levels = [shade.level for shade in shown.tokens if shade.level]
    turns = [shade.turn for shade in shown.tokens if shade.level]
    assert turns == [before != now for before, now in zip(["", *levels], levels, strict=False)]


@given(
    st.integers(2, 5).flatmap(
        lambda n: st.lists(st.lists(st.integers(0, 99), min_size=n, max_size=n), min_size=n, max_size=n)
    )
)
def test_a_confusion_is_shaded_by_the_share_of_its_row(rows: list[list[int]]) -> None:
    drawn = confusion_of({"labels": [str(n) for n in range(len(rows))], "rows": rows})
    assert drawn is not None
    for row, counts in zip(drawn.rows, rows, strict=True):
        assert [cell.count for cell in row.cells] == counts
        assert all((cell.shade == 0) == (cell.count == 0) and cell.shade <= 5 for cell in row.cells)


@pytest.mark.parametrize("found", [{}, {"labels": ["a"]}, {"labels": ["a", "b"], "rows": [[1, 2]]}])
def test_a_broken_confusion_is_left_out(found: dict[str, Any]) -> None:
    assert confusion_of(found) is None


def test_what_was_not_measured_is_left_out() -> None:
    assert measured_of({}) is None
    assert measured_of({"metric": "accuracy", "value": None}) is None
    bare = measured_of({"metric": "pearson", "value": 0.5})
    assert bare is not None
    assert (bare.name, bare.value, bare.figures, bare.labels) == ("Pearson", "0.500", [], [])
    assert (learning_curves({}), trials_of({}), stage_tables({}), perplexity_rows({})) == ([], [], [], [])


SCORED: dict[str, dict[str, Any]] = {
    "classification": classification_metrics(["a", "b"], ["a", "a"], train=["a", "b"]),
    "multilabel": multilabel_metrics([["a", "b"], ["b"]], [["a"], ["b"]], train=[["b"]]),
    "regression": regression_metrics([1.0, 2.0, 4.0], [1.0, 2.0, 3.0], train=[2.0]),
    "tagging": tagging_metrics([["x", "y"]], [["B-a", "O"]], [["B-a", "O"]], train=[(["x"], ["B-a"])]),
    "question answering": answer_metrics([["two"], []], ["two tablets", ""]),
}


def single_figures(scores: dict[str, Any]) -> set[str]:
    """The names of the figures that a scorer finds beside its headline."""
    return {name for name, value in scores.items() if isinstance(value, float)} - {"value"}


@pytest.mark.parametrize("task", SCORED)
def test_a_page_shows_every_figure_that_was_scored(task: str) -> None:
    shown = measured_of(SCORED[task])
    assert shown is not None
    of_numbers = {"majority_baseline"} if task == "regression" else set()
    assert len(shown.figures) == len(single_figures(SCORED[task]) - of_numbers)


def test_pages_ask_for_no_figure_that_nobody_scores() -> None:
    assert set(FIGURES) == {name for scores in SCORED.values() for name in single_figures(scores)}


@pytest.mark.parametrize(
    ("task", "name", "figure"),
    [
        ("multilabel", "All labels right", "50.0%"),
        ("regression", "Baseline error (always the mean)", "1.000"),
        ("classification", "Baseline (always the same answer)", "50.0%"),
        ("question answering", "Questions answered", "50.0%"),
    ],
)
def test_figures_are_named_and_written_as_people_read_them(task: str, name: str, figure: str) -> None:
    shown = measured_of(SCORED[task])
    assert shown is not None
    assert figure in [one.figure for one in shown.figures if one.name == name]


def test_the_dev_loss_is_drawn_from_before_training_and_the_loss_from_the_first_epoch() -> None:
    trained = [{"epoch": 1, "loss": 2.0, "dev_loss": 2.5}, {"epoch": 2, "loss": 1.0, "dev_loss": 1.5}]
    found = learning_curves({"epochs": [{"epoch": 0, "dev_loss": 4.0}, *trained]})
    assert [(one.name, one.began, one.lines[0].first, one.now, one.lines[0].last) for one in found] == [
        ("Loss by epoch", "epoch 1", "2", "epoch 2", "1"),
        ("Dev loss by epoch, from before training", "epoch 0", "4", "epoch 2", "1.5"),
    ]
    assert [one.name for one in learning_curves({"epochs": trained})] == [
        "Loss by epoch",
        "Dev loss by epoch",
    ]


def test_the_search_shows_the_best_try_first() -> None:
    epochs = [{"epoch": 1.0, "loss": 0.5}, {"epoch": 2.0, "loss": 0.4}]
    tries = [
        {"learning_rate": 0.001, "dev": 0.5, "best_epoch": 1, "epochs": epochs},
        {"learning_rate": 0.003, "dev": 0.7},
    ]
    assert [(one.settings, one.epochs, one.best) for one in trials_of({"trials": tries})] == [
        ("learning rate 0.003", "", True),
        ("learning rate 0.001", "2", False),
    ]
    report = {"trials": tries, "dev": {"metric": "pearson"}}
    assert [one.dev for one in trials_of(report)] == ["0.700", "0.500"]


def test_nested_figures_become_series_and_those_told_once_do_not() -> None:
    told = [{"step": n, "loss": 1.0 / (n + 1), "error": {"trigram": 0.5}} for n in range(3)]
    assert set(series_of([*told, {"once": 1}])) == {"loss", "error trigram"}
    chart = line_chart("error", {"a": [1.0, 0.0], "b": [0.5, 0.5]})
    assert [line.points for line in chart.lines] == ["0.00,4.00 100.00,96.00", "0.00,50.00 100.00,50.00"]


def test_perplexities_are_compared_by_text() -> None:
    report = {
        "before": {"perplexity": {"domain": 20.0}},
        "after": {"perplexity": {"domain": 10, "general": 9}},
        "full_context": {"perplexity": {"domain": 8.0, "general": 9}},
    }
    rows = perplexity_rows(report)
    assert [(row.text, row.change, row.full_context) for row in rows] == [("The domain's text", -0.5, 8.0)]
    one = {"before": {"perplexity": 20.0}, "after": {"perplexity": 15.0}}
    assert [(row.text, row.full_context) for row in perplexity_rows(one)] == [("Held-out text", None)]
