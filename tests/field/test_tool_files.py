"""Files of other tools: read as meant, or refused with what to do."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tenants.datasets.formats.columns import read_columns
from tenants.datasets.formats.lines import Source
from tenants.datasets.formats.task_guess import guess_task
from tests.field.data_files import (
    BOTH,
    CHAT,
    ENTITIES,
    FAULT,
    FOLDER,
    LAMP,
    QUESTION,
    preview,
    refusal,
    rows_of,
    same,
)
from tests.field.data_files import uploads as uploads

DOCS = Path(__file__).parents[2] / "docs" / "formats.md"


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


LIKE_CLASSES = {
    "label_studio/multilabel_min.json",
    "label_studio/multilabel.csv",
    "doccano/multilabel.csv",
    "doccano/sequence_to_sequence.jsonl",
}
"""Files whose text has one label in most rows, or of a name that says nothing."""


@pytest.mark.parametrize("file", [one for one in TOOL_FILES if one.is_read], ids=lambda file: file.path)
def test_the_task_of_a_tool_s_file_is_guessed(file: ToolFile) -> None:
    expected = "classification" if file.path in LIKE_CLASSES else file.task
    assert guess_task(Source(FOLDER / file.path, Path(file.path).name)) == expected


def test_the_page_of_formats_lists_exactly_these_files() -> None:
    listed = re.findall(r"^\|.*\| `([^`|]+\.\w+)` \| (read|refused)", DOCS.read_text(), re.MULTILINE)
    assert dict(listed) == {file.path: "read" if file.is_read else "refused" for file in TOOL_FILES}
    assert {str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.*")} == {
        file.path for file in TOOL_FILES
    }
