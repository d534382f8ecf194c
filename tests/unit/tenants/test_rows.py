"""Rows of each format: round trips, and every fault with its place."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tenants.errors import ErrorCode
from tenants.formats.check import RowChecker
from tenants.formats.dataset import read_rows
from tenants.formats.examples import Example, TagExample, TextExample, example_from_line
from tenants.formats.rows import column_names
from tenants.formats.tags import find_fault
from tests.unit.tenants.files import jsonl, refused, source


def examples(
    folder: Path, name: str, content: str | bytes, task: str = "classification", **columns: str
) -> list[Example]:
    found = source(folder, name, content)
    checker = RowChecker(task)
    _, rows = read_rows(found, task, column_names(task, columns))
    return [checker.example(row, name) for row in rows]


# --- JSON lines ---------------------------------------------------------------------------------------------


def test_json_lines_are_read_and_blank_ones_skipped(tmp_path: Path) -> None:
    content = '{"text": "a", "label": "x", "id": 7}\n\n  \n{"label": "y", "text": "b"}'
    assert examples(tmp_path, "a.jsonl", content) == [TextExample("a", "x"), TextExample("b", "y")]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"text": "a", "label": ', "not valid JSON"),
        ("[1, 2]", "an array"),
        ('"text"', "a string"),
        ("null", "null"),
        ("[" * 100_000, "beyond all measure"),
        ('{"text": "a", "label": ' + "9" * 5000 + "}", "beyond all measure"),
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


def test_columns_map_other_names(tmp_path: Path) -> None:
    content = '{"sentence": "a", "class": "x"}'
    assert examples(tmp_path, "a.jsonl", content, text="sentence", label="class") == [TextExample("a", "x")]


@pytest.mark.parametrize("columns", [{"txt": "a"}, {"text": ""}, {"tokens": "a"}])
def test_a_mapping_that_makes_no_sense_is_refused(columns: dict[str, str]) -> None:
    error = refused(ErrorCode.INVALID_FIELD, lambda: column_names("classification", columns))
    assert error.param == "columns"


def test_an_unknown_task_is_refused() -> None:
    assert refused(ErrorCode.INVALID_FIELD, lambda: column_names("translation", None)).param == "task"


# --- types --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [5, None, 1.5, True, ["a"], {"a": 1}])
def test_a_text_of_another_type_is_named_by_row_and_field(tmp_path: Path, text: Any) -> None:
    content = jsonl([{"text": "a", "label": "x"}, {"text": text, "label": "x"}])
    error = refused(ErrorCode.MIXED_TYPES, lambda: examples(tmp_path, "a.jsonl", content))
    assert error.details is not None
    assert (error.details["row"], error.details["field"]) == (2, "text")


@pytest.mark.parametrize("label", [5, None, 1.5, True, ["x"]])
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


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found_out(tmp_path: Path, delimiter: str) -> None:
    content = f"id{delimiter}text{delimiter}label\n1{delimiter}hello, you; all{delimiter}x\n"
    if delimiter in ",;":
        content = content.replace("hello, you; all", '"hello, you; all"')
    assert examples(tmp_path, "a.csv", content) == [TextExample("hello, you; all", "x")]


def test_quoted_fields_hold_delimiters_quotes_and_line_ends(tmp_path: Path) -> None:
    content = '\ufefftext,label\r\n"one\r\ntwo, ""three""",x\r\n\r\nfour,y\r\n'
    assert examples(tmp_path, "a.csv", content) == [
        TextExample('one\ntwo, "three"', "x"),
        TextExample("four", "y"),
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


def test_a_header_without_the_columns_says_what_was_found(tmp_path: Path) -> None:
    error = refused(ErrorCode.MISSING_COLUMN, lambda: examples(tmp_path, "a.csv", "sentence;class\na;x\n"))
    assert error.details is not None
    assert error.details["found"] == ["sentence", "class"]
    assert error.details["missing"] == ["text", "label"]


PLAIN = st.text(st.characters(exclude_characters="\0\r", exclude_categories=["Cs"])).map(
    lambda text: "a" + text
)


@given(st.lists(st.tuples(PLAIN, st.sampled_from(["x", "y z", "“ü”"])), min_size=1), st.sampled_from(",;\t|"))
def test_what_the_csv_module_writes_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]], delimiter: str
) -> None:
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=delimiter).writerows([("text", "label"), *rows])
    found = examples(tmp_path_factory.mktemp("csv"), "a.csv", buffer.getvalue())
    assert found == [TextExample(text, label) for text, label in rows]


# --- tags ---------------------------------------------------------------------------------------------------


CONLL = "-DOCSTART- -X- O O\n\nEU NNP B-ORG\nrejects VBZ O\n\n\nPeter NNP B-PER\nBlackburn NNP I-PER"


def test_conll_takes_the_first_and_the_last_column(tmp_path: Path) -> None:
    assert examples(tmp_path, "train.txt", CONLL, "tagging") == [
        TagExample(("EU", "rejects"), ("B-ORG", "O")),
        TagExample(("Peter", "Blackburn"), ("B-PER", "I-PER")),
    ]


def test_conll_columns_can_be_chosen_by_position(tmp_path: Path) -> None:
    content = "1\tEU\tB-ORG\t_\n2\trejects\tO\t_\n"
    assert examples(tmp_path, "a.conll", content, "tagging", tokens="2", tags="3") == [
        TagExample(("EU", "rejects"), ("B-ORG", "O"))
    ]


@pytest.mark.parametrize("place", ["0", "-1", "word", "1000"])
def test_conll_columns_have_positions_only(tmp_path: Path, place: str) -> None:
    refused(ErrorCode.INVALID_FIELD, lambda: examples(tmp_path, "a.conll", "EU O", "tagging", tokens=place))


def test_a_conll_line_without_a_tag_is_located(tmp_path: Path) -> None:
    error = refused(
        ErrorCode.MISSING_COLUMN, lambda: examples(tmp_path, "a.conll", "EU O\nrejects\n", "tagging")
    )
    assert error.details is not None
    assert error.details["line"] == 2


@pytest.mark.parametrize(
    ("tags", "line"),
    [
        ("O I-ORG", 4),
        ("B-PER I-ORG", 4),
        ("B-PER O I-PER", 5),
        ("B-PER E-PER", 4),
        ("S-PER", 3),
        ("O B-", 4),
        ("PER", 3),
    ],
)
def test_tags_that_are_not_iob2_are_located_by_line(tmp_path: Path, tags: str, line: int) -> None:
    content = "EU O\n\n" + "".join(f"word {tag}\n" for tag in tags.split())
    error = refused(ErrorCode.INVALID_TAGS, lambda: examples(tmp_path, "a.conll", content, "tagging"))
    assert error.details is not None
    assert (error.details["row"], error.details["line"]) == (2, line)


def test_as_many_tags_as_tokens_are_needed(tmp_path: Path) -> None:
    content = jsonl([{"tokens": ["a", "b"], "tags": ["O"]}])
    error = refused(ErrorCode.MALFORMED_ROW, lambda: examples(tmp_path, "a.jsonl", content, "tagging"))
    assert "2 tokens but 1 tags" in error.message


@pytest.mark.parametrize(
    ("tokens", "code"),
    [
        ([], ErrorCode.EMPTY_TEXT),
        (["a", ""], ErrorCode.EMPTY_TEXT),
        (["a", 5], ErrorCode.MIXED_TYPES),
        (7, ErrorCode.MIXED_TYPES),
        (["a", None], ErrorCode.MIXED_TYPES),
    ],
)
def test_tokens_are_a_list_of_texts(tmp_path: Path, tokens: Any, code: ErrorCode) -> None:
    content = jsonl([{"tokens": tokens, "tags": ["O", "O"]}])
    refused(code, lambda: examples(tmp_path, "a.jsonl", content, "tagging"))


def test_tables_hold_tokens_and_tags_parted_by_spaces(tmp_path: Path) -> None:
    assert examples(tmp_path, "a.csv", "tokens,tags\nEU rejects,B-ORG O\n", "tagging") == [
        TagExample(("EU", "rejects"), ("B-ORG", "O"))
    ]


SPANS = st.lists(
    st.tuples(st.sampled_from(["ORG", "PER", "a b", ""]), st.integers(1, 3)), min_size=1, max_size=6
)


@given(SPANS)
def test_every_sentence_made_of_spans_is_iob2(spans: list[tuple[str, int]]) -> None:
    tags = [
        tag
        for kind, length in spans
        for tag in ([f"B-{kind}"] + [f"I-{kind}"] * (length - 1) if kind else ["O"] * length)
    ]
    assert find_fault(tags) is None


# --- canonical form -----------------------------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(TEXT, TEXT)
@example("a\x85b\u2028c\u2029d\x0b\x0c\x1c\x1d\x1e\r\ne", "x")
def test_canonical_lines_of_texts_come_back_and_stay_on_one_line(text: str, label: str) -> None:
    line = TextExample(text, label).to_line()
    assert line.splitlines() == [line[:-1]]
    assert example_from_line(line) == TextExample(text, label)
    assert json.loads(line) == {"text": text, "label": label}


@given(st.lists(st.tuples(TEXT, st.sampled_from(["O", "B-x"])), min_size=1))
def test_canonical_lines_of_tags_come_back(pairs: list[tuple[str, str]]) -> None:
    written = TagExample(tuple(token for token, _ in pairs), tuple(tag for _, tag in pairs))
    assert example_from_line(written.to_line()) == written
