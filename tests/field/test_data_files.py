"""Files of other tools, and files as people have them: read as meant, or refused with what to do."""

import io
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tenants.base.errors import HmiError
from tenants.datasets.formats import jsonl as jsonl_module
from tenants.datasets.formats.columns import read_columns
from tenants.datasets.formats.corpus import draft_corpus
from tenants.datasets.formats.lines import MAX_LINE_BYTES, Source
from tenants.datasets.services.datasets import dataset_preview
from tests.integration.tenants.asking import DATASETS, post
from tests.integration.tenants.content import upload
from tests.integration.world import make_world
from workers.training.generative.metrics import rouge_l

FOLDER = Path(__file__).parent / "files"
DOCS = Path(__file__).parents[2] / "docs" / "formats.md"

LAMP, PARCEL, HINGE = "The lamp flickers", "The parcel came late", "The hinge squeaks"
TOKENS = ["Ada", "Lovelace", "lived", "in", "London", "."]
TAGS = ["B-PER", "I-PER", "O", "O", "B-LOC", "O"]
ENTITIES = {"tokens": TOKENS, "tags": TAGS}
FAULT = {"text": LAMP, "label": "fault"}
BOTH = {"text": LAMP, "labels": ["delivery", "fault"]}
ADA = "Ada Lovelace lived in London."
QUESTION: dict[str, Any] = {
    "question": "Who lived in London?",
    "context": ADA,
    "answers": [{"text": "Ada Lovelace", "start": 0}],
}
CHAT = {"messages": [{"role": "user", "content": LAMP}, {"role": "assistant", "content": "fault"}]}


@dataclass(frozen=True)
class ToolFile:
    """A file of a tool: its first row and number of rows, or the code and words of its refusal."""

    path: str
    task: str
    first: dict[str, Any] | str
    says: str = ""
    rows: int = 12
    columns: dict[str, str] = field(default_factory=dict)
    separator: str = "|"

    @property
    def is_read(self) -> bool:
        return not isinstance(self.first, str)


def read(path: str, task: str, first: dict[str, Any], rows: int = 12, **options: Any) -> ToolFile:
    return ToolFile(path, task, first, rows=rows, **options)


def refuse(path: str, task: str, code: str, says: str) -> ToolFile:
    return ToolFile(path, task, code, says)


INSTRUCTED = {"prompt": f"Name the kind of message.\n{LAMP}", "completion": "fault"}
TOPIC = {"label": "topic"}
TOPICS = {"labels": "topic"}
SHORT = {"prompt": f"Shorten: {LAMP}", "completion": "flickers"}
TOOL_FILES = [
    read("label_studio/classification.json", "classification", FAULT),
    read("label_studio/classification_min.json", "classification", FAULT, columns=TOPIC),
    read("label_studio/classification.csv", "classification", FAULT, columns=TOPIC),
    read("label_studio/classification.tsv", "classification", FAULT, columns=TOPIC),
    read("label_studio/multilabel.json", "multilabel", BOTH),
    read("label_studio/multilabel_min.json", "multilabel", BOTH, columns=TOPICS),
    read("label_studio/multilabel.csv", "multilabel", BOTH, columns=TOPICS),
    read("label_studio/entities.json", "tagging", ENTITIES),
    read("label_studio/entities_min.json", "tagging", ENTITIES),
    read("label_studio/entities.csv", "tagging", ENTITIES),
    read(
        "label_studio/entities.conll",
        "tagging",
        ENTITIES,
    ),
    read("doccano/classification.jsonl", "classification", FAULT),
    read("doccano/classification_data.jsonl", "classification", FAULT),
    read("doccano/classification.json", "classification", FAULT),
    read("doccano/multilabel.jsonl", "multilabel", BOTH),
    read("doccano/multilabel.csv", "multilabel", BOTH, separator="#"),
    read("doccano/entities.jsonl", "tagging", ENTITIES),
    read("doccano/relations.jsonl", "tagging", ENTITIES),
    read(
        "doccano/sequence_to_sequence.jsonl",
        "generation",
        SHORT,
        columns={"prompt": "text", "completion": "label"},
    ),
    refuse("doccano/classification.txt", "classification", "malformed_row", "fastText"),
    read("prodigy/entities.jsonl", "tagging", ENTITIES),
    read("prodigy/entities_without_tokens.jsonl", "tagging", ENTITIES),
    read("prodigy/choice.jsonl", "classification", FAULT),
    read("prodigy/choices.jsonl", "multilabel", BOTH),
    read("prodigy/binary.jsonl", "classification", FAULT),
    read("spacy/entities.json", "tagging", ENTITIES),
    read("spacy/entities.jsonl", "tagging", ENTITIES),
    read("spacy/categories.jsonl", "classification", FAULT),
    read("spacy/multilabel.jsonl", "multilabel", BOTH),
    refuse("spacy/training_v2.json", "tagging", "malformed_row", "spaCy's JSON of version 2"),
    refuse("spacy/train.spacy", "tagging", "not_text", ".spacy"),
    read("hugging_face/classification.jsonl", "classification", {"text": LAMP, "label": "0"}),
    read("hugging_face/classification.csv", "classification", {"text": LAMP, "label": "0"}),
    read("hugging_face/multilabel.csv", "multilabel", {"text": LAMP, "labels": ["0"]}),
    read("hugging_face/entities.jsonl", "tagging", ENTITIES),
    read("hugging_face/entities.csv", "tagging", ENTITIES),
    refuse("hugging_face/entities_numbers.jsonl", "tagging", "invalid_tags", "int2str"),
    read("hugging_face/question_answering.jsonl", "question_answering", QUESTION),
    read("hugging_face/question_answering_field.json", "question_answering", QUESTION),
    read(
        "hugging_face/generation.jsonl",
        "generation",
        {"prompt": f"Say {LAMP}:", "completion": f" {LAMP}"},
    ),
    read("hugging_face/dolly.jsonl", "generation", INSTRUCTED),
    read("llama_factory/alpaca.json", "generation", INSTRUCTED),
    read("llama_factory/sharegpt.json", "chat", CHAT),
    read("hugging_face/chat.jsonl", "chat", CHAT),
    read("hugging_face/chat.json", "chat", CHAT),
    refuse("hugging_face/classification.parquet", "classification", "not_text", "to_json()"),
    refuse("hugging_face/train.arrow", "classification", "not_text", "to_json()"),
    read(
        "squad/train-v1.1.json",
        "question_answering",
        QUESTION | {"answers": [*QUESTION["answers"], {"text": "London", "start": 22}]},
    ),
    read("squad/train-v2.0.json", "question_answering", QUESTION, rows=24),
    read("pandas/records.json", "classification", FAULT),
    read("pandas/float_labels.jsonl", "classification", {"text": LAMP, "label": "0"}),
    read("pandas/list_cells.csv", "multilabel", BOTH),
    refuse("pandas/columns.json", "classification", "malformed_row", "orient='records'"),
    read("excel/semicolons.csv", "classification", FAULT | {"text": f"{LAMP}, twice"}),
    read("excel/sep_line.csv", "classification", FAULT),
    read("excel/tabs.tsv", "classification", FAULT),
    refuse("excel/unicode_text.txt", "classification", "invalid_encoding", "CSV UTF-8"),
    refuse("excel/workbook.xlsx", "classification", "not_text", "CSV UTF-8"),
]


@pytest.fixture(autouse=True)
def uploads(upload_root: Path) -> Path:
    """The folder in which received files are checked."""
    return upload_root


def preview(name: str, content: bytes | str, task: str, **options: Any) -> dict[str, Any]:
    """What upload, check and preview say of one file."""
    content = content.encode() if isinstance(content, str) else content
    files = {"train": (name, io.BytesIO(content))}
    return dataset_preview(task=task, files=files, allow_leaks=True, **options)


def rows_of(name: str, content: bytes | str, task: str, **options: Any) -> list[dict[str, Any]]:
    """The first rows of a file that is read."""
    found = preview(name, content, task, **options)
    return [{key: value for key, value in row.items() if key != "cut"} for row in found["rows"]["train"]]


def refusal(name: str, content: bytes | str, task: str, **options: Any) -> HmiError:
    """The error with which a file is refused."""
    with pytest.raises(HmiError) as caught:
        preview(name, content, task, **options)
    return caught.value


def same(row: dict[str, Any]) -> dict[str, Any]:
    """The row with its labels sorted: their order says nothing."""
    return row | {"labels": sorted(row["labels"])} if "labels" in row else row


@pytest.mark.parametrize("file", TOOL_FILES, ids=lambda file: file.path)
def test_a_file_of_a_tool_is_read_or_refused_with_what_to_do(file: ToolFile) -> None:
    path = FOLDER / file.path
    options = {"columns": file.columns, "separator": file.separator}
    if isinstance(file.first, str):
        error = refusal(path.name, path.read_bytes(), file.task, **options)
        assert (error.code, file.says in error.message) == (file.first, True), error.message
    else:
        found = preview(path.name, path.read_bytes(), file.task, **options)
        assert found["report"]["rows"] == file.rows
        assert same(rows_of(path.name, path.read_bytes(), file.task, **options)[0]) == file.first


def test_a_file_of_a_tool_is_read_over_http(db: None) -> None:
    world = make_world()
    path = FOLDER / "squad/train-v2.0.json"
    found = post(
        world.client(world.owner),
        f"{DATASETS}/preview",
        task="question_answering",
        train=upload(path.name, path.read_bytes()),
    )
    assert (found.status_code, found.json()["report"]["rows"]) == (200, 24)


@pytest.mark.parametrize(
    ("path", "task", "mapping"),
    [
        ("label_studio/entities.json", "tagging", {"tokens": "text", "tags": "spans"}),
        ("doccano/entities.jsonl", "tagging", {"tokens": "text", "tags": "label"}),
        ("prodigy/choices.jsonl", "multilabel", {"text": "text", "labels": "accept"}),
        ("excel/semicolons.csv", "classification", {"text": "Text", "label": "Label"}),
        ("excel/sep_line.csv", "classification", {"text": "text", "label": "label"}),
        ("label_studio/classification.csv", "classification", {"text": "text"}),
    ],
)
def test_columns_of_tools_are_offered_as_they_are_read(path: str, task: str, mapping: dict[str, str]) -> None:
    file = Source(FOLDER / path, Path(path).name)
    assert read_columns(file, task).default_mapping == mapping


def test_the_page_of_formats_lists_exactly_these_files() -> None:
    listed = re.findall(r"^\|.*\| `([^`|]+\.\w+)` \| (read|refused)", DOCS.read_text(), re.MULTILINE)
    assert dict(listed) == {file.path: "read" if file.is_read else "refused" for file in TOOL_FILES}
    assert {str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.*")} == {
        file.path for file in TOOL_FILES
    }


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


def test_quotes_of_commas_reach_over_lines() -> None:
    content = table('"one', 'two"\tfault').replace("\t", ",")
    assert rows_of("a.csv", content, "classification")[0]["text"] == "one\ntwo"


@pytest.mark.parametrize("mark", ["sep=;", '"sep=;"', "SEP=;", "\ufeffsep=;", "sep=;\n"])
def test_the_line_sep_names_the_delimiter(mark: str) -> None:
    content = mark + "\n" + table(header='"text";"label"').replace("\t", ";")
    assert preview("a.csv", content, "classification")["report"]["rows"] == 20
    assert rows_of("a.csv", content, "classification")[0] == {"text": "row 0", "label": "delivery"}


def test_a_delimiter_that_only_the_line_sep_names_is_used() -> None:
    content = "sep=~\n" + table().replace("\t", "~")
    assert preview("a.csv", content, "classification")["report"]["rows"] == 20


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
        ("text|label|", "row {n}|{label}|"),
        ("text;label;;", "row {n};{label};;"),
        ("text\tlabel", "row {n}\t{label}\t"),
        ("text, label", '"row {n}", "{label}"'),
        ('"text", "label"', '"row {n}",  "{label}"'),
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


def test_a_field_too_many_is_refused() -> None:
    error = refusal("a.csv", "text,label\n" + "a,b,,c\n" * 20, "classification")
    assert (error.code, (error.details or {})["fields"]) == ("malformed_row", 4)


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


# --- labels -------------------------------------------------------------------------------------------------

Rows = Iterable[dict[str, Any]]


def jsonl(rows: Rows) -> str:
    """The rows as JSON lines."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def labelled(task: str, label: str, count: int = 20) -> tuple[str, str]:
    """A file of this task in which each other row has the label, and its name."""
    labels = [label if number % 2 else "other" for number in range(count)]
    rows: dict[str, Rows] = {
        "classification": ({"text": f"row {n}", "label": one} for n, one in enumerate(labels)),
        "multilabel": ({"text": f"row {n}", "labels": [one, "more"]} for n, one in enumerate(labels)),
        "tagging": ({"tokens": [f"row{n}", "b"], "tags": [f"B-{one}", "O"]} for n, one in enumerate(labels)),
    }
    return "a.jsonl", jsonl(rows[task])


LABEL_TASKS = ("classification", "multilabel", "tagging")


@pytest.mark.parametrize("task", LABEL_TASKS)
@pytest.mark.parametrize(
    "label",
    [
        "نمی\u200cخواهم",
        "👩\u200d💻 dev",
        "👩🏽\u200d❤\ufe0f\u200d👨",
        "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
        "1\ufe0f\u20e3",
        "क\u094d\u200dष",
        "അവന\u0d4d\u200d",
        "Auf\u200clage",
    ],
)
def test_joiners_of_words_and_emoji_are_part_of_a_label(task: str, label: str) -> None:
    name, content = labelled(task, label)
    assert label in preview(name, content, task)["report"]["labels"]


@pytest.mark.parametrize("task", LABEL_TASKS)
@pytest.mark.parametrize(
    "character",
    [
        "\u200b",
        "\u202e",
        "\u2066",
        "\u200e",
        "\u061c",
        "\u2060",
        "\ufeff",
        "\u00ad",
        "\u3164",
        "\U000e0041",
        " \ufe0f",
        "\x07",
    ],
)
def test_a_label_with_an_invisible_character_is_refused_by_its_code(task: str, character: str) -> None:
    name, content = labelled(task, f"a{character}b")
    error = refusal(name, content, task)
    assert error.code == ("invalid_tags" if task == "tagging" else "malformed_row")
    assert f"U+{ord(character[-1]):04X}" in error.message
    assert (error.details or {})["row"] == 2


@pytest.mark.parametrize("label", ["a\u200c", "\u200da", "a \u200d b", "a\u200d\u200db"])
def test_a_joiner_that_joins_nothing_is_refused(label: str) -> None:
    name, content = labelled("classification", label)
    assert "U+200" in refusal(name, content, "classification").message


@pytest.mark.parametrize("task", LABEL_TASKS)
@pytest.mark.parametrize(
    ("forms", "label"),
    [
        (["Re\u0301clamation", "R\u00e9clamation"], "R\u00e9clamation"),
        (["\u1112\u1161\u11ab", "\ud55c"], "\ud55c"),
        ([" fault ", "fault", "fault\u00a0"], "fault"),
        (["no\u00a0reply", "no  reply", "no\u3000reply"], "no reply"),
    ],
)
def test_forms_of_one_label_are_one_class(task: str, forms: list[str], label: str) -> None:
    contents = [labelled(task, form)[1] for form in forms]
    found = preview("a.jsonl", "".join(contents), task)["report"]["labels"]
    assert found == sorted({label, "other"} | ({"more"} if task == "multilabel" else set()))


def test_a_span_goes_on_in_another_unicode_form() -> None:
    rows = [{"tokens": [f"a{n}", "b"], "tags": ["B-R\u00e9", "I-Re\u0301"]} for n in range(20)]
    assert preview("a.jsonl", jsonl(rows), "tagging")["report"]["labels"] == ["R\u00e9"]


@pytest.mark.parametrize(
    ("labels", "warned"),
    [
        (["Fault", "fault"], True),
        (["1", "1.0"], True),
        (["True", "true"], True),
        (["❤", "❤\ufe0f"], True),
        (["1.0", "2.0"], False),
    ],
)
def test_labels_that_look_alike_are_warned_of(labels: list[str], warned: bool) -> None:
    content = "text,label\n" + "".join(f"row {n},{labels[n % 2]}\n" for n in range(40))
    warnings = preview("a.csv", content, "classification")["report"]["warnings"]
    assert any("differ only" in warning for warning in warnings) == warned


@pytest.mark.parametrize(
    ("values", "label"),
    [([1, 1.0], "1"), ([True, True], "true"), ([["fault"], "fault"], "fault"), ([0.0, 0], "0")],
)
def test_forms_of_one_json_label_are_one_class(values: list[Any], label: str) -> None:
    kinds = {"1": 2, "0": 2, "true": False, "fault": "other"}
    rows = [{"text": f"row {n}", "label": [*values, kinds[label]][n % 3]} for n in range(30)]
    assert label in preview("a.jsonl", jsonl(rows), "classification")["report"]["labels"]


@pytest.mark.parametrize(
    "cell",
    [
        '{"choices": ["fault", "delivery"]}',
        "{'choices': ['fault', 'delivery']}",
        '["fault", "delivery"]',
        "['fault', 'delivery']",
        "['fault' 'delivery']",
        "['fault'\n 'delivery']",
        "fault|delivery",
        " fault | delivery ",
    ],
)
def test_labels_in_a_cell_are_read_as_each_tool_writes_them(cell: str) -> None:
    rows = "".join(f'row {n},"{cell.replace(chr(34), chr(34) * 2)}"\n' for n in range(20))
    found = preview("a.csv", "text,labels\n" + rows, "multilabel")["report"]["labels"]
    assert found == ["delivery", "fault"]


def test_several_choices_are_refused_where_there_is_one_label() -> None:
    rows = [{"text": f"row {n}", "label": {"choices": ["a", "b"] if n == 3 else ["a"]}} for n in range(20)]
    error = refusal("a.jsonl", jsonl(rows), "classification")
    assert (error.code, (error.details or {})["row"]) == ("malformed_row", 4)
    assert "multilabel" in error.message


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


def test_tokens_of_other_formats_may_have_such_spaces_too() -> None:
    rows = [{"tokens": [f"a{n}", "10\u00a0000", "\u3000"], "tags": ["B-X", "O", "O"]} for n in range(20)]
    assert rows_of("a.jsonl", jsonl(rows), "tagging")[0]["tokens"] == ["a0", "10\u00a0000", "\u3000"]
    cells = "tokens,tags\n" + "".join(f"a{n} 10\u00a0000 \u3000,B-X O O\n" for n in range(20))
    assert rows_of("a.csv", cells, "tagging")[0]["tokens"] == ["a0", "10\u00a0000", "\u3000"]


TAGGED = conll("b", "c", sign="\t")
LINES = jsonl({"tokens": [f"t{n}", "b", "c"], "tags": ["B-X", "O", "O"]} for n in range(20))
CELLS = "tokens\ttags\n" + "".join(f"t{n} b c\tB-X O O\n" for n in range(20))
ARRAY = "[\n" + ",\n".join(LINES.splitlines()) + "\n]"
PRETTY = json.dumps([json.loads(line) for line in LINES.splitlines()], indent=2)


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
        ([[0, 7, "A"], [4, 5, "B"]], "overlap"),
        ([[0, 99, "A"]], "not inside the text"),
        ([[3, 3, "A"]], "not inside the text"),
        ([[3, 4, "A"]], "blank"),
        ([["0", "3", "A"]], "not inside the text"),
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


# --- numbers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
@pytest.mark.parametrize(
    ("written", "number"),
    [("1.5", 1.5), (" 1.50 ", 1.5), ("1e3", 1000.0), ("+2", 2.0), ("1,5", None), ("5%", None)],
)
def test_a_number_is_written_with_a_decimal_point_in_every_format(
    name: str, written: str, number: float | None
) -> None:
    if name == "a.csv":
        content = "text;value\n" + "".join(f"row {n};{n}\n" for n in range(20)) + f"last;{written}\n"
    else:
        content = jsonl(
            [*({"text": f"row {n}", "value": n} for n in range(20)), {"text": "last", "value": written}]
        )
    if number is None:
        assert "decimal point" in refusal(name, content, "regression").message
    else:
        assert preview(name, content, "regression")["report"]["splits"]["train"]["rows"] > 10


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


def test_an_input_beside_a_prompt_is_another_column() -> None:
    rows = [{"prompt": f"Say {n}", "input": "now", "completion": "yes"} for n in range(20)]
    assert rows_of("a.jsonl", jsonl(rows), "generation")[0] == {"prompt": "Say 0", "completion": "yes"}


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


@pytest.mark.parametrize("task", ["generation", "chat"])
def test_generative_rows_of_a_pretty_array_are_read(task: str) -> None:
    rows: list[dict[str, Any]] = [
        {"prompt": f"{n}?", "completion": "yes"}
        if task == "generation"
        else {"messages": [{"role": "user", "content": f"{n}?"}, {"role": "assistant", "content": "yes"}]}
        for n in range(20)
    ]
    assert rows_of("a.json", json.dumps(rows, indent=4), task)[0] == rows[0]


# --- texts that are not the same ----------------------------------------------------------------------------


def leaks(train: Iterable[str], dev: Iterable[str]) -> list[Any]:
    """The leaks of two splits with these texts."""
    filler = [f"filler {number}" for number in range(12)]
    files = {
        split: (
            f"{split}.jsonl",
            io.BytesIO(jsonl({"text": t, "label": "ab"[n % 2]} for n, t in enumerate(rows)).encode()),
        )
        for split, rows in {"train": [*train, *filler], "dev": [*dev]}.items()
    }
    report = dataset_preview(task="classification", files=files, allow_leaks=True)["report"]
    return [leak for leak in report["leaks"] if leak["to"] == "dev"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("मेल", "मील"),
        ("பல", "பால்"),
        ("กา", "กี"),
        ("מֶלֶךְ", "מַלְכּ"),
        ("C", "C++"),
        ("C#", "C++"),
        ("F", "F#"),
        ("great 😀", "great 😡"),
        ("5 < 6", "5 > 6"),
    ],
)
def test_texts_that_differ_in_marks_or_symbols_are_no_leak(one: str, other: str) -> None:
    assert leaks([one], [other]) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Hello, World!", "hello world"),
        ("caf\u00e9", "cafe\u0301"),
        ("می\u200cخواهم", "میخواهم"),
        ("मेल!", "मेल"),
    ],
)
def test_texts_that_differ_in_case_punctuation_or_unicode_form_are_a_leak(one: str, other: str) -> None:
    assert [leak["rows"] for leak in leaks([one], [other])] == [1]


@pytest.mark.parametrize(
    ("wanted", "written"),
    [("मेल", "मील"), ("பல", "பால்"), ("กา", "มี"), ("C++", "C#"), ("C", "C++"), ("😀", "😡"), ("你好", "再见")],
)
def test_rouge_of_other_words_is_zero_in_every_script(wanted: str, written: str) -> None:
    assert rouge_l([[wanted]], [written]) == 0.0


@pytest.mark.parametrize(
    ("wanted", "written", "score"),
    [
        ("मेल है", "मेल है", 1.0),
        ("मेल", "मेल।", 1.0),
        ("😀", "😀", 1.0),
        ("caf\u00e9", "cafe\u0301", 1.0),
        ("今天天气很好", "今天天气不好", 5 / 6),
        ("ดีมาก", "ดีมาก", 1.0),
        ("मेल और मील", "मेल और मूल", 2 / 3),
    ],
)
def test_rouge_counts_the_words_of_every_script(wanted: str, written: str, score: float) -> None:
    assert rouge_l([[wanted]], [written]) == pytest.approx(score)


@pytest.mark.parametrize(
    ("name", "document"),
    [("a.jsonl", False), ("a.json", False), ("a.txt", False), ("a.jsonl", True), ("a.json", True)],
)
def test_a_corpus_of_json_is_recognised_by_its_content(name: str, document: bool, tmp_path: Path) -> None:
    rows = [{"text": f"line {number}", "id": number} for number in range(12)]
    path = tmp_path / name
    path.write_text(json.dumps(rows) if document else jsonl(rows))
    draft = draft_corpus(file=Source(path, name), workspace=tmp_path)
    assert draft.preview[:2] == ["line 0", "line 1"]


def test_a_corpus_that_begins_with_a_bracket_stays_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text('{\n[1] a note\n{"id": 5}\n')
    assert draft_corpus(file=Source(path, "a.txt"), workspace=tmp_path).preview == [
        "{",
        "[1] a note",
        '{"id": 5}',
    ]


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


def test_a_text_of_label_studio_s_json_min_without_spans_has_no_tag_but_o() -> None:
    rows = json.loads((FOLDER / "label_studio/entities_min.json").read_text())
    del rows[0]["label"]
    assert set(rows_of("a.json", json.dumps(rows), "tagging")[0]["tags"]) == {"O"}


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
