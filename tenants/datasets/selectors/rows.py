"""Browsing and searching the stored rows of a dataset."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO, Final

from tenants.datasets.models import Dataset
from tenants.datasets.selectors.previews import MAX_LINE_BYTES, truncated_row
from tenants.datasets.storage import stored_open, upload_store

ROWS_SHOWN: Final = 25
MAX_BYTES_SEARCHED: Final = 16 * 1024**2
"""Of one request: reading as much takes some 50 ms."""


@dataclass(frozen=True, slots=True)
class RowsPage:
    """Rows of a split, long texts truncated. ``next_offset`` is the byte from which to go on, None at the end
    of the file; there may be rows left even if fewer than ``ROWS_SHOWN`` were found."""

    rows: list[dict[str, Any]]
    next_offset: int | None


def dataset_rows_page(dataset: Dataset, *, split: str, words: str = "", offset: int = 0) -> RowsPage:
    """The rows of a split from a byte on that contain all words, in any letter case. An offset that is not
    the ``next_offset`` of another page begins at the first row."""
    digest = next((row.sha256 for row in dataset.splits.all() if row.split == split), None)
    path = None if digest is None else upload_store().path(digest)
    if path is None or not path.is_file():
        return RowsPage([], None)
    with path.open("rb") as file:
        return _read_page(file, words.lower().split(), _line_start(file, offset))


def dataset_rows_at(dataset: Dataset, *, split: str, numbers: Collection[int]) -> dict[int, dict[str, Any]]:
    """The stored rows of a split with these numbers, counted from 0, not truncated. Raises
    ``corrupt_artifact`` if the file is gone."""
    if not numbers:
        return {}
    [digest] = [row.sha256 for row in dataset.splits.all() if row.split == split]
    with stored_open(digest) as file:
        lines = islice(file, max(numbers) + 1)
        return {number: json.loads(line) for number, line in enumerate(lines) if number in numbers}


def _read_page(file: BinaryIO, words: Sequence[str], start: int) -> RowsPage:
    rows: list[dict[str, Any]] = []
    file.seek(start)
    while len(rows) < ROWS_SHOWN and file.tell() - start < MAX_BYTES_SEARCHED:
        line = file.readline(MAX_LINE_BYTES)
        if not line:
            return RowsPage(rows, None)
        text = line.decode(errors="replace")
        if text.endswith("\n") and all(word in text.lower() for word in words):
            rows.append(truncated_row(json.loads(text)))
        elif not text.endswith("\n"):  # longer than MAX_LINE_BYTES
            file.readline()
    return RowsPage(rows, file.tell() if file.peek(1) else None)  # type: ignore[attr-defined]


def _line_start(file: BinaryIO, offset: int) -> int:
    """The offset if a line begins there, else 0."""
    if offset <= 0:
        return 0
    file.seek(offset - 1)
    return offset if file.read(1) == b"\n" else 0
