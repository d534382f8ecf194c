"""Browsing and searching the stored rows of a dataset."""

import json
from collections.abc import Collection, Mapping
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
    """Rows of a split, long texts truncated, and the number of each, counted from 1.

    ``next_offset`` is the byte from which to go on, None at the end of the file, and ``next_row`` the number
    of the row there; there may be rows left even if fewer than ``ROWS_SHOWN`` were found.
    """

    rows: list[dict[str, Any]]
    numbers: list[int]
    next_offset: int | None
    next_row: int


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Which rows to show: those that contain all words, in any letter case, that have the label, if there is
    one, and whose numbers, counted from 1, are among these, if there are any."""

    words: tuple[str, ...] = ()
    label: str = ""
    numbers: Collection[int] | None = None

    def has(self, number: int, text: str) -> bool:
        """Whether to show the row with this number and this line of JSON."""
        if self.numbers is not None and number not in self.numbers:
            return False
        lower = text.lower()
        if not all(word in lower for word in self.words):
            return False
        return not self.label or self.label in _labels(json.loads(text))


def dataset_rows_page(
    dataset: Dataset, *, split: str, wanted: RowFilter | None = None, offset: int = 0, row: int = 1
) -> RowsPage:
    """The wanted rows of a split from a byte on, where the row with the number ``row`` begins. An offset that
    is not the ``next_offset`` of another page begins at the first row."""
    wanted = wanted or RowFilter()
    digest = next((row.sha256 for row in dataset.splits.all() if row.split == split), None)
    path = None if digest is None else upload_store().path(digest)
    if path is None or not path.is_file():
        return RowsPage([], [], None, 1)
    with path.open("rb") as file:
        start = _line_start(file, offset)
        return _read_page(file, wanted, start, row if start else 1)


def dataset_rows_at(dataset: Dataset, *, split: str, numbers: Collection[int]) -> dict[int, dict[str, Any]]:
    """The stored rows of a split with these numbers, counted from 0, not truncated. Raises
    ``corrupt_artifact`` if the file is gone."""
    if not numbers:
        return {}
    [digest] = [row.sha256 for row in dataset.splits.all() if row.split == split]
    with stored_open(digest) as file:
        lines = islice(file, max(numbers) + 1)
        return {number: json.loads(line) for number, line in enumerate(lines) if number in numbers}


def _read_page(file: BinaryIO, wanted: RowFilter, start: int, number: int) -> RowsPage:
    rows: list[dict[str, Any]] = []
    numbers: list[int] = []
    file.seek(start)
    while len(rows) < ROWS_SHOWN and file.tell() - start < MAX_BYTES_SEARCHED:
        line = file.readline(MAX_LINE_BYTES)
        if not line:
            return RowsPage(rows, numbers, None, number)
        text = line.decode(errors="replace")
        if not text.endswith("\n"):  # longer than MAX_LINE_BYTES
            file.readline()
        elif wanted.has(number, text):
            rows.append(truncated_row(json.loads(text)))
            numbers.append(number)
        number += 1
    more = file.peek(1)  # type: ignore[attr-defined]
    return RowsPage(rows, numbers, file.tell() if more else None, number)


def _labels(row: Mapping[str, Any]) -> set[str]:
    """The labels of a row: its own, or those of its tokens."""
    if "label" in row:
        return {row["label"]}
    return {*row.get("labels", ()), *(tag[2:] for tag in row.get("tags", ()) if tag != "O")}


def _line_start(file: BinaryIO, offset: int) -> int:
    """The offset if a line begins there, else 0."""
    if offset <= 0:
        return 0
    file.seek(offset - 1)
    return offset if file.read(1) == b"\n" else 0
