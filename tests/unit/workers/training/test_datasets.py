"""Reading labelled data in canonical form."""

from pathlib import Path
from typing import Any

import pytest

from inference.errors import HplmError
from tests.unit.workers.training.world import json_lines
from workers.training.datasets import Example, SpanAnswer, read_examples

GOOD: dict[str, dict[str, Any]] = {
    "classification": {"text": "t", "label": "a"},
    "multilabel": {"text": "t", "labels": []},
    "regression": {"text": "t", "value": 1},
    "tagging": {"tokens": ["t"], "tags": ["O"]},
    "question_answering": {"question": "q", "context": "c", "answers": []},
}


@pytest.mark.parametrize(
    ("task", "row"),
    [
        ("classification", {"text": "no label"}),
        ("multilabel", {"text": "t", "labels": "a"}),
        ("regression", {"text": "t", "value": "high"}),
        ("tagging", {"tokens": ["a", "b"], "tags": ["O"]}),
        ("tagging", {"tokens": "ab", "tags": ["O", "O"]}),
        (
            "question_answering",
            {"question": "q", "context": "a river", "answers": [{"text": "a", "start": 3}]},
        ),
    ],
)
def test_a_malformed_row_is_named(tmp_path: Path, task: str, row: dict[str, Any]) -> None:
    with pytest.raises(HplmError, match=r"Row 2 of rows\.jsonl") as caught:
        read_examples(json_lines(tmp_path / "rows.jsonl", [GOOD[task], row]), task)
    assert caught.value.code == "malformed_row"


def test_an_empty_split_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HplmError) as caught:
        read_examples(json_lines(tmp_path / "rows.jsonl", []), "tagging")
    assert caught.value.code == "too_few_rows"


def test_empty_lines_count_as_rows_of_the_file_but_hold_no_example(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"text": "t", "label": "a"}\n\n{"text": "u", "label": "b"}\n', encoding="utf-8")
    assert [example.labels for example in read_examples(file, "classification")] == [("a",), ("b",)]


@pytest.mark.parametrize(
    ("task", "row", "example"),
    [
        (
            "classification",
            {"text": "t", "text_pair": "u", "label": "a"},
            Example("t", "u", labels=("a",)),
        ),
        ("multilabel", {"text": "t", "labels": ["b", "a"]}, Example("t", labels=("b", "a"))),
        ("regression", {"text": "t", "text_pair": "", "value": -2}, Example("t", "", value=-2.0)),
        (
            "question_answering",
            {"question": "q", "context": "a river", "answers": [{"text": "river", "start": 2}]},
            Example("q", "a river", answers=(SpanAnswer("river", 2),)),
        ),
    ],
)
def test_every_kind_of_row_is_read(tmp_path: Path, task: str, row: dict[str, Any], example: Example) -> None:
    assert read_examples(json_lines(tmp_path / "rows.jsonl", [row]), task) == [example]
