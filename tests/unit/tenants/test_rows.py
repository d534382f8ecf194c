"""Rows of each format: round trips, and every fault with its place."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tenants.base.errors import ErrorCode
from tenants.datasets.formats.examples import ClassificationExample, example_from_line
from tenants.datasets.formats.rows import column_mapping
from tests.unit.tenants.files import examples, jsonl, refused

# --- JSON lines ---------------------------------------------------------------------------------------------


def test_json_lines_are_read_and_blank_ones_skipped(tmp_path: Path) -> None:
    content = '{"text": "a", "label": "x", "id": 7}\n\n  \n{"label": "y", "text": "b"}'
    assert examples(tmp_path, "a.jsonl", content) == [
        ClassificationExample("a", "x"),
        ClassificationExample("b", "y"),
    ]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"text": "a", "label": ', "not valid JSON"),
        ("[1, 2]", "an array"),
        ('"text"', "a string"),
        ("null", "null"),
        ("[" * 100_000, "too deeply nested"),
        ('{"text": "a", "label": ' + "9" * 5000 + "}", "too deeply nested"),
    ],
)
def test_a_malformed_json_line_is_located(tmp_path: Path, line: str, says: str) -> None:
    content = '{"text": "a", "label": "x"}\n\n' + line
    error = refused(ErrorCode.MALFORMED_ROW, lambda: examples(tmp_path, "a.jsonl", content))
    assert says in error.message
    assert error.details is not None
    assert (error.details["row"], error.details["line"]) == (2, 3)


def test_a_missing_column_says_what_was_found_and_what_is_needed(tmp_path: Path) -> None:
    error = refused(
        ErrorCode.MISSING_COLUMN, lambda: examples(tmp_path, "a.jsonl", '{"sentence": "a", "label": "x"}')
    )
    assert error.details == {
        "file": "a.jsonl",
        "row": 1,
        "line": 1,
        "needed": ["text", "label"],
        "missing": ["text"],
        "found": ["sentence", "label"],
    }


@pytest.mark.parametrize("columns", [{"txt": "a"}, {"text": ""}, {"tokens": "a"}])
def test_a_mapping_that_makes_no_sense_is_refused(columns: dict[str, str]) -> None:
    error = refused(ErrorCode.INVALID_FIELD, lambda: column_mapping("classification", columns))
    assert error.param == "columns"


# --- types --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [5, None, ["a"]])
def test_a_text_of_another_type_is_named_by_row_and_field(tmp_path: Path, text: Any) -> None:
    content = jsonl([{"text": "a", "label": "x"}, {"text": text, "label": "x"}])
    error = refused(ErrorCode.MIXED_TYPES, lambda: examples(tmp_path, "a.jsonl", content))
    assert error.details is not None
    assert (error.details["row"], error.details["field"]) == (2, "text")


@pytest.mark.parametrize("label", [5, None, {"x": 5}])
def test_labels_of_two_types_are_refused(tmp_path: Path, label: Any) -> None:
    content = jsonl([{"text": "a", "label": "x"}, {"text": "b", "label": label}])
    error = refused(ErrorCode.MIXED_TYPES, lambda: examples(tmp_path, "a.jsonl", content))
    assert error.details is not None
    assert (error.details["row"], error.details["field"]) == (2, "label")


@pytest.mark.parametrize(("labels", "become"), [([0, 1], ["0", "1"]), ([True, False], ["true", "false"])])
def test_numbers_and_truth_values_are_labels_when_all_are(
    tmp_path: Path, labels: list[Any], become: list[str]
) -> None:
    content = jsonl([{"text": "a", "label": label} for label in labels])
    assert [row.labels[0] for row in examples(tmp_path, "a.jsonl", content)] == become


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", ErrorCode.EMPTY_TEXT),
        (" \n\t", ErrorCode.EMPTY_TEXT),
        ("a\0b", ErrorCode.NOT_TEXT),
        ("a\ud800b", ErrorCode.INVALID_ENCODING),
    ],
)
def test_texts_that_json_can_spell_but_nobody_can_use_are_refused(
    tmp_path: Path, text: str, code: ErrorCode
) -> None:
    error = refused(code, lambda: examples(tmp_path, "a.jsonl", jsonl([{"text": text, "label": "x"}])))
    assert error.details is not None
    assert error.details["row"] == 1


@pytest.mark.parametrize("label", ["", "  ", "a\nb", "a\0", "x" * 201, "\ud800"])
def test_labels_that_cannot_be_shown_are_refused(tmp_path: Path, label: str) -> None:
    content = jsonl([{"text": "a", "label": label}])
    refused(ErrorCode.MALFORMED_ROW, lambda: examples(tmp_path, "a.jsonl", content))


# --- tables -------------------------------------------------------------------------------------------------


def test_quoted_fields_hold_delimiters_quotes_and_line_ends(tmp_path: Path) -> None:
    content = '\ufefftext,label\r\n"one\r\ntwo, ""three""",x\r\n\r\nfour,y\r\n'
    assert examples(tmp_path, "a.csv", content) == [
        ClassificationExample('one\ntwo, "three"', "x"),
        ClassificationExample("four", "y"),
    ]


def test_a_row_with_other_fields_than_the_header_is_located(tmp_path: Path) -> None:
    content = 'text,label\n"a\nb",x\nhello, you,y\n'
    error = refused(ErrorCode.MALFORMED_ROW, lambda: examples(tmp_path, "a.csv", content))
    assert error.details == {"file": "a.csv", "row": 2, "line": 4, "fields": 3, "expected": 2}


@pytest.mark.parametrize("row", ['"never closed,x', '"closed"too early,x'])
def test_a_quote_out_of_place_is_located(tmp_path: Path, row: str) -> None:
    error = refused(ErrorCode.MALFORMED_ROW, lambda: examples(tmp_path, "a.csv", f"text,label\na,x\n{row}\n"))
    assert error.details == {"file": "a.csv", "line": 3}


def test_a_field_beyond_the_old_limit_of_the_csv_module_is_read(tmp_path: Path) -> None:
    long = "word " * 100_000
    assert len(examples(tmp_path, "a.csv", f'text,label\n"{long}",x\n')) == 1


PLAIN = st.text(st.characters(exclude_characters="\0\r", exclude_categories=["Cs"])).map(
    lambda text: "a" + text
)


@given(st.lists(st.tuples(PLAIN, st.sampled_from(["x", "y z", "“ü”"])), min_size=1), st.sampled_from(",;\t|"))
def test_what_the_csv_module_writes_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]], delimiter: str
) -> None:
    if delimiter == "\t":  # where quotes do not reach over lines
        rows = [(text.replace("\n", " "), label) for text, label in rows]
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=delimiter).writerows([("text", "label"), *rows])
    found = examples(tmp_path_factory.mktemp("csv"), "a.csv", buffer.getvalue())
    assert found == [ClassificationExample(text, label) for text, label in rows]


# --- canonical form -----------------------------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(TEXT, TEXT)
@example("a\x85b\u2028c\u2029d\x0b\x0c\x1c\x1d\x1e\r\ne", "x")
def test_canonical_lines_of_texts_come_back_and_stay_on_one_line(text: str, label: str) -> None:
    line = ClassificationExample(text, label).to_line()
    assert line.splitlines() == [line[:-1]]
    assert example_from_line(line) == ClassificationExample(text, label)
    assert json.loads(line) == {"text": text, "label": label}
