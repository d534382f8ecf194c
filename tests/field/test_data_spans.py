"""Tags and spans of texts: read as meant, or refused with what to do."""

from typing import Any

import pytest

from tests.field.data_files import FOLDER, LINES, PRETTY, jsonl, preview, refusal, rows_of
from tests.field.data_files import uploads as uploads

# --- tags and spans -----------------------------------------------------------------------------------------


def conll(*tokens: str, sign: str = " ") -> str:
    """Sentences of these tokens; the first is a span."""
    sentences = (
        "".join(f"{token}{sign}{'O' if at else 'B-X'}\n" for at, token in enumerate([f"t{n}", *tokens]))
        for n in range(20)
    )
    return "\n".join(sentences)


@pytest.mark.parametrize("token", ["10\u00a0000", "\u3000", "a\u2003b", "\u00a0", "a\u202fb", "a\x1fb"])
@pytest.mark.parametrize("sign", [" ", "\t", "  "])
def test_columns_of_conll_are_separated_by_spaces_and_tabs_alone(token: str, sign: str) -> None:
    assert rows_of("a.conll", conll(token, "b", sign=sign), "tagging")[0]["tokens"] == ["t0", token, "b"]


TAGGED = conll("b", "c", sign="\t")
CELLS = "tokens\ttags\n" + "".join(f"t{n} b c\tB-X O O\n" for n in range(20))
ARRAY = "[\n" + ",\n".join(LINES.splitlines()) + "\n]"


@pytest.mark.parametrize("content", [TAGGED, LINES, CELLS, CELLS.replace("\t", ","), ARRAY, PRETTY])
@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.conll", "a.jsonl", "a.json", "a.txt", "a"])
def test_a_file_is_recognised_by_its_content_under_any_name(name: str, content: str) -> None:
    first = rows_of(name, content, "tagging")[0]
    assert first == {"tokens": ["t0", "b", "c"], "tags": ["B-X", "O", "O"]}


TEXT = "Ada met 李明 in New York-based labs 😀!"


def spans(*found: Any, text: str = TEXT) -> str:
    return jsonl({"text": text + " x" * n, "label": list(found), "id": n} for n in range(20))


def test_words_of_spans_are_cut_at_punctuation_chinese_and_borders() -> None:
    row = rows_of("a.jsonl", spans([0, 3, "PER"], [8, 10, "PER"], [14, 22, "LOC"], [27, 29, "X"]), "tagging")[
        0
    ]
    pairs = list(zip(row["tokens"], row["tags"], strict=True))
    assert pairs == [
        ("Ada", "B-PER"),
        ("met", "O"),
        ("李", "B-PER"),
        ("明", "I-PER"),
        ("in", "O"),
        ("New", "B-LOC"),
        ("York", "I-LOC"),
        ("-", "O"),
        ("base", "O"),
        ("d", "B-X"),
        ("labs", "O"),
        ("😀", "O"),
        ("!", "O"),
    ]


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ([[0, 3, "A"], [2, 7, "B"]], "overlap"),
        ([[0, 99, "A"]], "not inside the text"),
        ([[3, 3, "A"]], "not inside the text"),
        ([[3, 4, "A"]], "blank"),
        ([{"start": 0, "label": "A"}], "'end' is missing"),
        ([{"start": 0, "end": 3, "label": "A", "text": "Eve"}], "is not 'Eve'"),
        ([{"start": 0, "end": 3, "labels": ["A", "B"]}], "2 labels"),
        ([{"start": 0, "end": 3}], "has no label"),
        ([{"end": 3}], "'start' is missing"),
        ([[0, 3]], "a span is"),
    ],
)
def test_spans_that_are_no_tags_are_refused_with_their_row(found: list[Any], says: str) -> None:
    error = refusal("a.jsonl", spans(*found), "tagging")
    assert (error.code, (error.details or {})["row"]) == ("malformed_row", 1)
    assert says in error.message


@pytest.mark.parametrize("units", [False, True])
def test_offsets_of_a_span_with_its_text_may_count_utf_16_units(units: bool) -> None:
    text = "😀 Ada lives"
    begin = 3 if units else 2
    span = {"start": begin, "end": begin + 3, "text": "Ada", "labels": ["PER"]}
    row = rows_of("a.jsonl", spans(span, text=text), "tagging")[0]
    assert dict(zip(row["tokens"], row["tags"], strict=True)) == {"😀": "O", "Ada": "B-PER", "lives": "O"}


def test_white_space_at_the_ends_of_a_span_and_a_second_copy_of_it_do_not_count() -> None:
    row = rows_of("a.jsonl", spans([0, 4, "PER"], [0, 3, "PER"]), "tagging")[0]
    assert row["tags"][:2] == ["B-PER", "O"]


def test_a_span_inside_a_given_token_is_refused() -> None:
    tokens = [{"text": "Ankarada", "start": 0, "end": 8, "id": 0}]
    rows = [{"text": "Ankarada", "tokens": tokens, "spans": [{"start": 0, "end": 6, "label": "LOC"}]}] * 20
    assert "inside a token" in refusal("a.jsonl", jsonl(rows), "tagging").message


def test_a_text_without_spans_has_no_tag_but_o() -> None:
    def prodigy(number: int) -> dict[str, Any]:
        word = f"row{number}"
        return {"text": word, "tokens": [{"text": word, "start": 0, "end": len(word)}], "_task_hash": number}

    rows = [{**prodigy(0), "spans": [{"start": 0, "end": 4, "label": "X"}]}, *map(prodigy, range(1, 20))]
    assert [row["tags"] for row in rows_of("a.jsonl", jsonl(rows), "tagging")[:2]] == [["B-X"], ["O"]]


@pytest.mark.parametrize("columns", [{}, {"tokens": "text", "tags": "ner"}])
@pytest.mark.parametrize("first", [True, False])
def test_a_blank_cell_of_label_studio_is_a_text_without_spans(columns: dict[str, str], first: bool) -> None:
    lines = (FOLDER / "label_studio/entities.csv").read_text().splitlines()
    if columns:
        lines[0] = lines[0].replace("label", "ner")
    lines.insert(1 if first else len(lines), "900,1,900,,Nothing here.")
    found = preview("a.csv", "\n".join(lines), "tagging", columns=columns)
    assert found["report"]["rows"] == 13
    if first:
        assert found["rows"]["train"][0]["tags"] == ["O", "O", "O"]


def test_tokens_without_tags_are_refused() -> None:
    content = "tokens,tags\n" + "".join(f"EU{n} rejects,{'B-X O' if n else ''}\n" for n in range(20))
    assert refusal("a.csv", content, "tagging").code == "empty_text"


def test_tokens_in_a_text_with_a_list_of_tags_stay_tokens() -> None:
    rows = [{"tokens": f"EU{n} rejects", "tags": ["B-ORG", "O"]} for n in range(20)]
    assert rows_of("a.jsonl", jsonl(rows), "tagging")[0] == {
        "tokens": ["EU0", "rejects"],
        "tags": ["B-ORG", "O"],
    }


@pytest.mark.parametrize("label", ["{other}", "[1]", "[spam]", "{"])
def test_a_label_in_brackets_is_text(label: str) -> None:
    content = "text,label\n" + "".join(f"row {n},{[label, 'x'][n % 2]}\n" for n in range(20))
    assert preview("a.csv", content, "classification")["report"]["labels"] == sorted([label, "x"])
