"""Tables, numbers and JSON documents as people have them: read as meant, or refused with what to do."""

import json

import pytest

from tenants.datasets.formats import jsonl as jsonl_module
from tenants.datasets.formats.lines import MAX_LINE_BYTES
from tests.field.data_files import FOLDER, PRETTY, jsonl, preview, refusal, rows_of
from tests.field.data_files import uploads as uploads

# --- tables -------------------------------------------------------------------------------------------------


def table(*lines: str, header: str = "text\tlabel", rows: int = 20) -> str:
    """A tab-separated file of these lines and of plain rows."""
    plain = [f"row {number}\t{'fault' if number % 2 else 'delivery'}" for number in range(rows)]
    return "\n".join([header, *lines, *plain]) + "\n"


STRAY = ['"Nice, they said\tfault', "It hums\tfault", 'and then left"\tdelivery']


@pytest.mark.parametrize(
    ("lines", "texts"),
    [
        (STRAY, ['"Nice, they said', "It hums", 'and then left"']),
        (['"Nice" they said\tfault'], ['"Nice" they said']),
        (['5" pipe\tfault', '"5"" pipe"\tfault'], ['5" pipe', '5" pipe']),
        (['"with\ta tab"\tfault', '""""\tfault', '""\tfault'][:2], ["with\ta tab", '"']),
        (['say "hi"\tfault'], ['say "hi"']),
    ],
)
@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.txt"])
def test_tab_separated_fields_are_quoted_only_if_all_quotes_close_on_their_line(
    name: str, lines: list[str], texts: list[str]
) -> None:
    content = table(*lines)
    assert [row["text"] for row in rows_of(name, content, "classification")][: len(texts)] == texts
    assert preview(name, content, "classification")["report"]["rows"] == 20 + len(lines)


def test_a_tab_separated_text_over_two_lines_is_refused_with_its_line() -> None:
    error = refusal("a.tsv", table('"one', 'two"\tfault'), "classification")
    assert (error.code, error.details and error.details["line"]) == ("malformed_row", 2)
    assert "quotes are part of the text" in error.message


@pytest.mark.parametrize("mark", ["sep=;", '"sep=;"', "SEP=;", "\ufeffsep=;", "sep=;\n"])
def test_the_line_sep_names_the_delimiter(mark: str) -> None:
    content = mark + "\n" + table(header='"text";"label"').replace("\t", ";")
    assert preview("a.csv", content, "classification")["report"]["rows"] == 20
    assert rows_of("a.csv", content, "classification")[0] == {"text": "row 0", "label": "delivery"}


@pytest.mark.parametrize(
    ("header", "columns", "places"),
    [
        ("text,label,label", {}, [2, 3]),
        ("text,label, Label ", {}, [2, 3]),
        ("text,r\u00e9ponse,re\u0301ponse", {"label": "r\u00e9ponse"}, [2, 3]),
        ("text,class,CLASS", {"label": "class"}, [2, 3]),
        ("text,text,label", {}, [1, 2]),
    ],
)
def test_a_column_that_is_there_twice_is_refused_with_its_places(
    header: str, columns: dict[str, str], places: list[int]
) -> None:
    content = header + "\n" + "a,b,c\n" * 20
    error = refusal("a.csv", content, "classification", columns=columns)
    details = error.details or {}
    assert (error.code, details["line"], details["places"]) == ("malformed_row", 1, places)


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("text,label", "row {n},{label},"),
        ("text,label", "row {n},{label},, ,"),
        ("text;label;;", "row {n};{label};;"),
        ("text\tlabel", "row {n}\t{label}\t"),
        ("text, label", '"row {n}", "{label}"'),
        ("label; text", '{label}; "row {n}"'),
    ],
)
def test_delimiters_at_line_ends_and_spaces_before_quotes_do_not_count(header: str, row: str) -> None:
    content = header + "\n" + "".join(row.format(n=n, label="ab"[n % 2]) + "\n" for n in range(20))
    found = rows_of("a.csv", content, "classification")
    assert found[:2] == [{"text": "row 0", "label": "a"}, {"text": "row 1", "label": "b"}]


@pytest.mark.parametrize("text", [' "Heat" is good', '"He said, ""Go"""', ' "Heat'])
def test_a_quote_inside_a_text_stays(text: str) -> None:
    content = "label,text,text_pair\n" + "".join(f"{'ab'[n % 2]},{text},row {n}\n" for n in range(20))
    read = text if text.startswith(" ") else 'He said, "Go"'
    assert rows_of("a.csv", content, "classification")[0]["text"] == read


@pytest.mark.parametrize("rule", ["|---|---|", "| :--- | ---: |", "--- | ---"])
def test_a_table_in_markdown_is_refused(rule: str) -> None:
    content = f"| text | label |\n{rule}\n" + "| row | a |\n" * 20
    assert "Markdown" in refusal("a.csv", content, "classification").message


def test_columns_that_are_not_read_may_have_one_name() -> None:
    content = "text,label,,,note,note\n" + "".join(f"row {n},{'ab'[n % 2]},,,,\n" for n in range(20))
    assert preview("a.csv", content, "classification")["report"]["rows"] == 20


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_letter_case_and_white_space_of_column_names_do_not_matter(name: str) -> None:
    rows = [(f"row {number}", "ab"[number % 2]) for number in range(20)]
    if name == "a.csv":
        content = " Text ,LABEL\n" + "".join(f"{text},{label}\n" for text, label in rows)
    else:
        content = jsonl({" Text ": text, "LABEL": label} for text, label in rows)
    assert rows_of(name, content, "classification")[0] == {"text": "row 0", "label": "a"}


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ('{"text": "a", "label": "x", "label": "y"}', "label"),
        ('{"text": "a", "label": "x", "meta": {"id": 1, "id": 2}}', "id"),
        ('{"text": "a", "label": "x", "Label": "y"}', "label"),
    ],
)
@pytest.mark.parametrize("array", [False, True])
def test_a_json_key_that_is_there_twice_is_refused_with_its_row(line: str, key: str, array: bool) -> None:
    good = [json.dumps({"text": f"row {number}", "label": "x"}) for number in range(2)]
    content = "[" + ",\n".join([*good, line]) + "]" if array else "\n".join([*good, line])
    error = refusal("a.json", content, "classification")
    assert (error.code, error.details and error.details["line"]) == ("malformed_row", 3)
    assert repr(key) in error.message


# --- numbers ------------------------------------------------------------------------------------------------


# --- JSON documents -----------------------------------------------------------------------------------------


def test_a_broken_document_names_the_line() -> None:
    content = '[\n{"text": "a", "label": "x"},\n{"text": "b", "label": }\n]'
    error = refusal("a.json", content, "classification")
    assert (error.code, (error.details or {})["line"]) == ("malformed_row", 3)


def test_a_document_beyond_the_limit_says_to_write_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl_module, "MAX_DOCUMENT_BYTES", 1000)
    error = refusal("a.json", PRETTY, "tagging")
    assert (error.code, "JSON lines" in error.message) == ("file_too_large", True)


def test_a_document_of_one_line_may_be_longer_than_a_line() -> None:
    article = {
        "title": "Ada",
        "paragraphs": [
            {
                "context": f"Ada was number {n}. " + "word " * 100_000,
                "qas": [{"question": f"Who was {n}?", "answers": [{"text": "Ada", "answer_start": 0}]}],
            }
            for n in range(20)
        ],
    }
    content = json.dumps({"data": [article], "version": "1.1"})
    assert len(content) > MAX_LINE_BYTES
    assert preview("train-v1.1.json", content, "question_answering")["report"]["rows"] == 20


def test_an_impossible_question_has_no_answer() -> None:
    found = rows_of("a.json", (FOLDER / "squad/train-v2.0.json").read_bytes(), "question_answering")
    assert [len(row["answers"]) for row in found[:4]] == [1, 0, 1, 0]


@pytest.mark.parametrize("columns", [{}, {"prompt": "instruction", "completion": "output"}])
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_the_input_of_an_instruction_is_part_of_the_prompt(name: str, columns: dict[str, str]) -> None:
    rows = [{"instruction": f"Say {n}", "input": "now" if n % 2 else "", "output": "yes"} for n in range(20)]
    cells = "instruction,input,output\n" + "".join(",".join(row.values()) + "\n" for row in rows)
    found = rows_of(name, cells if name == "a.csv" else jsonl(rows), "generation", columns=columns)
    assert [row["prompt"] for row in found[:2]] == ["Say 0", "Say 1\nnow"]


@pytest.mark.parametrize("name", ["system", "history"])
def test_what_an_instruction_cannot_have_is_refused(name: str) -> None:
    rows = [
        {"instruction": f"Say {n}", "output": "yes", name: "" if n < 3 else "Be brief"} for n in range(20)
    ]
    error = refusal("a.jsonl", jsonl(rows), "generation")
    assert (error.code, (error.details or {})["row"], repr(name) in error.message) == (
        "malformed_row",
        4,
        True,
    )


def test_the_system_of_sharegpt_is_the_first_message_and_tools_are_refused() -> None:
    turns = [{"from": "human", "value": "?"}, {"from": "chatgpt", "value": "!"}]
    rows = [{"conversations": turns, "system": f"Be {n}", "tools": "[]"} for n in range(20)]
    assert rows_of("a.jsonl", jsonl(rows), "chat")[0]["messages"] == [
        {"role": "system", "content": "Be 0"},
        {"role": "user", "content": "?"},
        {"role": "assistant", "content": "!"},
    ]
    rows[2]["tools"] = '[{"name": "f"}]'
    error = refusal("a.jsonl", jsonl(rows), "chat")
    assert ((error.details or {})["row"], (error.details or {})["field"]) == (3, "tools")


@pytest.mark.parametrize("role", ["tool", "observation", "function_call"])
def test_messages_of_tools_in_sharegpt_are_refused(role: str) -> None:
    turns = [{"from": "human", "value": "?"}, {"from": role, "value": "{}"}, {"from": "gpt", "value": "!"}]
    assert repr(role) in refusal("a.jsonl", jsonl([{"conversations": turns}] * 20), "chat").message
