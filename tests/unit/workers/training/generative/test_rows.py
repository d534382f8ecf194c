"""Rows of generative datasets, as jobs read them."""

import json
from pathlib import Path

import pytest

from inference.errors import HplmError
from tenants.datasets.formats import examples
from tests.unit.workers.training.world import json_lines
from workers.training.generative.rows import ChatRow, Message, PromptRow, read_rows

USER = {"role": "user", "content": "Hello"}
ANSWER = {"role": "assistant", "content": "Hi"}


def test_training_reads_the_lines_that_uploads_become(tmp_path: Path) -> None:
    messages = (examples.Message("user", "Hello"), examples.Message("assistant", "Hm", learned=False))
    chat = examples.ChatExample((*messages, examples.Message("assistant", "Hi")))
    (tmp_path / "chat").write_text(chat.to_line(), encoding="utf-8")
    (tmp_path / "prompts").write_text(examples.GenerationExample("a ", " b").to_line(), encoding="utf-8")
    assert read_rows(tmp_path / "prompts", "generation") == [PromptRow("a ", " b")]
    (row,) = read_rows(tmp_path / "chat", "chat")
    assert row == ChatRow(
        (Message("user", "Hello"), Message("assistant", "Hm"), Message("assistant", "Hi", learned=True))
    )
    assert row.reference == "Hi"


@pytest.mark.parametrize(
    ("task", "row", "reason"),
    [
        ("generation", {"prompt": "a"}, "'completion' is missing"),
        ("generation", {"prompt": "a", "completion": " "}, "completion must be a text"),
        ("generation", {"prompt": 7, "completion": "b"}, "prompt must be a text"),
        ("generation", ["a", "b"], "not a JSON object"),
        ("chat", {"messages": [USER]}, "must end with one of the assistant"),
        ("chat", {"messages": [{**USER, "content": None}, ANSWER]}, r"messages\[0\].content must be a text"),
        ("chat", {"messages": [USER, {**ANSWER, "weight": 0}]}, "a weight of 1"),
        ("chat", {"messages": [USER, {**ANSWER, "weight": 3}]}, r"messages\[1\].weight must be 0 or 1"),
    ],
)
def test_a_bad_row_is_named_with_its_field(tmp_path: Path, task: str, row: object, reason: str) -> None:
    good = {"prompt": "a", "completion": "b", "messages": [USER, ANSWER]}
    path = tmp_path / "train.jsonl"
    path.write_text(json.dumps(good) + "\n\n" + json.dumps(row) + "\n", encoding="utf-8")
    with pytest.raises(HplmError, match=f"Row 3 of train.jsonl: .*{reason}") as caught:
        read_rows(path, task)
    assert caught.value.code == "malformed_row"


def test_a_split_without_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HplmError) as caught:
        read_rows(json_lines(tmp_path / "dev.jsonl", []), "chat")
    assert caught.value.code == "too_few_rows"
