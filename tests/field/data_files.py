"""What checks of data files share: their contents, and what upload, check and preview say of them."""

import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tenants.base.errors import HmiError
from tenants.datasets.services.datasets import dataset_preview

FOLDER = Path(__file__).parent / "files"
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
Rows = Iterable[dict[str, Any]]


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


def jsonl(rows: Rows) -> str:
    """The rows as JSON lines."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


LINES = jsonl({"tokens": [f"t{n}", "b", "c"], "tags": ["B-X", "O", "O"]} for n in range(20))
PRETTY = json.dumps([json.loads(line) for line in LINES.splitlines()], indent=2)
