"""Rows of pairs, several labels, numbers and questions: round trips, and every fault with its place."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenants.base.errors import ErrorCode
from tenants.datasets.formats.examples import (
    ChatExample,
    ClassificationExample,
    Example,
    GenerationExample,
    Message,
    MultilabelExample,
    QuestionAnsweringExample,
    RegressionExample,
    SpanAnswer,
    TaggingExample,
    example_from_line,
)
from tenants.datasets.formats.readers import read_rows
from tenants.datasets.formats.row_parser import RowParser, clean_separator
from tenants.datasets.formats.rows import column_mapping
from tests.unit.tenants.files import examples, jsonl, refused, source

CONTEXT = "Ada wrote the first program in 1843."
SHORT = st.text(min_size=1, max_size=30)


@given(
    SHORT,
    SHORT | st.none(),
    st.lists(SHORT, max_size=3, unique=True),
    st.floats(-1e6, 1e6),
    st.booleans(),
)
def test_every_kind_of_row_survives_its_line(
    text: str, pair: str | None, labels: list[str], value: float, learned: bool
) -> None:
    kinds: list[Example] = [
        ClassificationExample(text, "x", pair),
        MultilabelExample(text, tuple(labels), pair),
        RegressionExample(text, value, pair),
        QuestionAnsweringExample(text, text + text, (SpanAnswer(text, 0), SpanAnswer(text, len(text)))),
        TaggingExample((text, *labels), ("B-x", *("O" for _ in labels))),
        GenerationExample(text, pair or text),
        ChatExample((Message("user", text), Message("assistant", pair or text, learned))),
    ]
    for example in kinds:
        line = example.to_line()
        assert line.count("\n") == 1
        assert example_from_line(line) == example


def test_the_canonical_keys_are_those_that_training_reads() -> None:
    lines = [
        ClassificationExample("a", "x", "b").to_line(),
        MultilabelExample("a", ("x", "y")).to_line(),
        RegressionExample("a", 1.5).to_line(),
        QuestionAnsweringExample("a", "b", (SpanAnswer("b", 0),)).to_line(),
    ]
    assert [json.loads(line) for line in lines] == [
        {"text": "a", "text_pair": "b", "label": "x"},
        {"text": "a", "labels": ["x", "y"]},
        {"text": "a", "value": 1.5},
        {"question": "a", "context": "b", "answers": [{"text": "b", "start": 0}]},
    ]


def test_a_second_text_is_read_where_there_is_one(tmp_path: Path) -> None:
    rows = jsonl([{"text": "a", "text_pair": "b", "label": "x"}])
    assert examples(tmp_path, "a.jsonl", rows) == [ClassificationExample("a", "x", "b")]
    table = "premise,hypothesis,label\na,b,x\n"
    mapped = {"text": "premise", "text_pair": "hypothesis"}
    assert examples(tmp_path, "a.csv", table, **mapped) == [ClassificationExample("a", "x", "b")]
    null = jsonl([{"text": "a", "text_pair": None, "label": "x"}])
    assert examples(tmp_path, "b.jsonl", null) == [ClassificationExample("a", "x")]


def test_a_second_text_that_was_named_must_be_there(tmp_path: Path) -> None:
    error = refused(
        ErrorCode.MISSING_COLUMN,
        lambda: examples(tmp_path, "a.csv", "text,label\na,x\n", text_pair="hypothesis"),
    )
    assert error.details is not None
    assert error.details["missing"] == ["hypothesis"]


@pytest.mark.parametrize("first", [True, False])
def test_all_rows_have_a_second_text_or_none(tmp_path: Path, first: bool) -> None:
    one, other = {"text": "a", "label": "x"}, {"text": "b", "text_pair": "c", "label": "x"}
    rows = jsonl([other, one] if first else [one, other])
    error = refused(ErrorCode.MALFORMED_ROW, lambda: examples(tmp_path, "a.jsonl", rows))
    assert error.details is not None
    assert (error.details["row"], error.details["field"]) == (2, "text_pair")


@pytest.mark.parametrize(
    ("cell", "labels"),
    [
        ("", ()),
        (" red | green |", ("red", "green")),
        ("red|red", ("red",)),
    ],
)
def test_labels_of_a_cell_are_parted(tmp_path: Path, cell: str, labels: tuple[str, ...]) -> None:
    table = f"text\tlabels\na\t{cell}\n"
    assert examples(tmp_path, "a.tsv", table, "multilabel") == [MultilabelExample("a", labels)]


def test_the_separator_is_the_uploaders_choice(tmp_path: Path) -> None:
    found = source(tmp_path, "a.csv", 'text,labels\na,"red; green"\n')
    _, rows = read_rows(found, "multilabel", column_mapping("multilabel", None))
    parser = RowParser("multilabel", ";")
    assert [parser.parse(row, "a.csv") for row in rows] == [MultilabelExample("a", ("red", "green"))]


@pytest.mark.parametrize("separator", ["", "a", "1", "||||", "\n"])
def test_a_separator_that_could_stand_in_a_label_is_refused(separator: str) -> None:
    assert refused(ErrorCode.INVALID_FIELD, lambda: clean_separator(separator)).param == "separator"


@pytest.mark.parametrize(
    ("labels", "code"),
    [
        (5, ErrorCode.MIXED_TYPES),
        (["x", 1], ErrorCode.MIXED_TYPES),
        ([""], ErrorCode.MALFORMED_ROW),
        ("[broken", ErrorCode.MALFORMED_ROW),
    ],
)
def test_labels_that_are_none_are_named_by_row(tmp_path: Path, labels: Any, code: ErrorCode) -> None:
    rows = jsonl([{"text": "a", "labels": ["x"]}, {"text": "b", "labels": labels}])
    error = refused(code, lambda: examples(tmp_path, "a.jsonl", rows, "multilabel"))
    assert error.details is not None
    assert (error.details["row"], error.details["field"]) == (2, "labels")


@pytest.mark.parametrize(("value", "number"), [(3, 3.0), (-1.5, -1.5), ("2.25", 2.25), (" 1e3 ", 1000.0)])
def test_numbers_are_read_from_json_and_from_cells(tmp_path: Path, value: Any, number: float) -> None:
    rows = jsonl([{"text": "a", "value": value}])
    assert examples(tmp_path, "a.jsonl", rows, "regression") == [RegressionExample("a", number)]


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("1,5", ErrorCode.MIXED_TYPES),
        ("1_000", ErrorCode.MIXED_TYPES),
        ("", ErrorCode.MIXED_TYPES),
        (True, ErrorCode.MIXED_TYPES),
        ("nan", ErrorCode.MALFORMED_ROW),
        (10**16, ErrorCode.MALFORMED_ROW),
    ],
)
def test_what_is_no_finite_number_is_named_by_row(tmp_path: Path, value: Any, code: ErrorCode) -> None:
    rows = jsonl([{"text": "a", "value": 1}, {"text": "a", "value": value}])
    error = refused(code, lambda: examples(tmp_path, "a.jsonl", rows, "regression"))
    assert error.details is not None
    assert (error.details["row"], error.details["field"]) == (2, "value")


@pytest.mark.parametrize(
    "answers",
    [
        [{"text": "1843", "start": 31}],
        [{"text": "1843", "answer_start": 31}, {"text": "1843", "answer_start": 31}],
        {"text": ["1843"], "answer_start": [31]},
        '{"text": ["1843"], "answer_start": [31]}',
    ],
)
def test_answers_are_read_in_both_forms(tmp_path: Path, answers: Any) -> None:
    rows = jsonl([{"question": "When?", "context": CONTEXT, "answers": answers}])
    assert examples(tmp_path, "a.jsonl", rows, "question_answering") == [
        QuestionAnsweringExample("When?", CONTEXT, (SpanAnswer("1843", 31),))
    ]


@pytest.mark.parametrize("answers", [[], {"text": [], "answer_start": []}, ""])
def test_a_question_may_have_no_answer(tmp_path: Path, answers: Any) -> None:
    rows = jsonl([{"question": "Where?", "context": CONTEXT, "answers": answers}])
    found = examples(tmp_path, "a.jsonl", rows, "question_answering")
    assert found == [QuestionAnsweringExample("Where?", CONTEXT, ())]


def test_an_answer_must_stand_where_it_says(tmp_path: Path) -> None:
    rows = jsonl([{"question": "When?", "context": CONTEXT, "answers": [{"text": "1843", "start": 30}]}])
    error = refused(
        ErrorCode.MALFORMED_ROW, lambda: examples(tmp_path, "a.jsonl", rows, "question_answering")
    )
    assert "it starts at 31" in error.message
    assert error.details is not None
    assert (error.details["row"], error.details["found"]) == (1, 31)


@pytest.mark.parametrize(
    "answers",
    [
        None,
        "1843",
        {"text": ["1843"], "answer_start": []},
        [{"text": "1843"}],
        [{"text": "1843", "start": True}],
        [{"text": "", "start": 0}],
    ],
)
def test_answers_of_another_form_are_refused(tmp_path: Path, answers: Any) -> None:
    rows = jsonl([{"question": "When?", "context": CONTEXT, "answers": answers}])
    with pytest.raises(Exception, match=r"row 1|column"):
        examples(tmp_path, "a.jsonl", rows, "question_answering")
