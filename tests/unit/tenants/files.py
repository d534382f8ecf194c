"""Files for the tests of formats."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.formats.dataset import DatasetDraft, draft_dataset
from tenants.datasets.formats.examples import Example
from tenants.datasets.formats.lines import Source
from tenants.datasets.formats.readers import read_rows
from tenants.datasets.formats.row_parser import RowParser
from tenants.datasets.formats.rows import column_mapping


def source(folder: Path, name: str, content: str | bytes) -> Source:
    """A file with this content, as if it had been received under this name."""
    path = folder / f"received-{name}"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return Source(path, name)


def jsonl(rows: Iterable[object]) -> str:
    """The rows as JSON lines."""
    return "".join(json.dumps(row) + "\n" for row in rows)


def texts(count: int, *, labels: tuple[str, ...] = ("good", "bad"), start: int = 0) -> list[dict[str, Any]]:
    """Rows of classification, all with differing texts, the labels in turn."""
    return [
        {"text": f"text number {number}", "label": labels[number % len(labels)]}
        for number in range(start, start + count)
    ]


def refused(code: ErrorCode, act: Callable[[], object]) -> HmiError:
    """The error with which the act fails, which must have this code."""
    with pytest.raises(HmiError) as caught:
        act()
    assert caught.value.code == code, f"{caught.value.code}: {caught.value.message}"
    return caught.value


def examples(
    folder: Path, name: str, content: str | bytes, task: str = "classification", **columns: str
) -> list[Example]:
    """What a file of that name and content holds."""
    found = source(folder, name, content)
    parser = RowParser(task)
    _, rows = read_rows(found, task, column_mapping(task, columns))
    return [parser.parse(row, name) for row in rows]


def draft(
    folder: Path,
    task: str = "classification",
    skip_invalid_rows: bool = False,
    **files: list[dict[str, Any]] | str,
) -> DatasetDraft:
    """The dataset that is made of JSON lines by split, in a new folder below this one."""
    sources = {
        split: source(folder, f"{split}.jsonl", content if isinstance(content, str) else jsonl(content))
        for split, content in files.items()
    }
    workspace = folder / "workspace"
    workspace.mkdir()
    return draft_dataset(
        files=sources, task=task, columns=None, workspace=workspace, skip_invalid_rows=skip_invalid_rows
    )
