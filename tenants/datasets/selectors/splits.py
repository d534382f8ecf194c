"""The rows of a split by their numbers, and a split as a file."""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import IO, Any, Final

from tenants.base.errors import ErrorCode, HmiError, not_found
from tenants.datasets.models import Dataset
from tenants.datasets.storage import stored_open

MAX_BYTES_READ: Final = 16 * 1024**2
"""Of one page: reading and searching as much takes some 100 ms."""


@dataclass(frozen=True, slots=True)
class NumberedRow:
    """A stored row, counted from 1."""

    row: int
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SplitPage:
    """Rows of a split. ``cursor``: where the next page begins, "" at the end. There may be rows left even
    if a page has none."""

    rows: list[NumberedRow]
    cursor: str


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Which rows to read: those that contain all words, in any letter case, that have the label, if there is
    one, and whose numbers, counted from 1, are among these, if there are any."""

    words: str = ""
    label: str = ""
    numbers: Collection[int] | None = None

    def has(self, number: int, text: str) -> bool:
        """Whether to read the row with this number and this line of JSON."""
        if self.numbers is not None and number not in self.numbers:
            return False
        lower = text.lower()
        if not all(word in lower for word in self.words.lower().split()):
            return False
        return not self.label or self.label in _labels(json.loads(text))


def split_page(dataset: Dataset, *, split: str, wanted: RowFilter, cursor: str = "", limit: int) -> SplitPage:
    """The wanted rows of a split.

    Raises ``not_found`` for a split that the dataset does not have, ``invalid_field`` for a cursor that no
    page has, ``corrupt_artifact`` if the file is gone.
    """
    rows: list[NumberedRow] = []
    with split_open(dataset, split) as file:
        number, start = _place(file, cursor)
        while len(rows) < limit and file.tell() - start < MAX_BYTES_READ:
            line = file.readline()
            if not line:
                return SplitPage(rows, "")
            number += 1
            if wanted.has(number, line.decode()):
                rows.append(NumberedRow(number, json.loads(line)))
        at = file.tell()
        return SplitPage(rows, f"{number}-{at}" if file.read(1) else "")


def split_open(dataset: Dataset, split: str) -> IO[bytes]:
    """The open file of a split: JSON lines. Raises ``not_found`` and ``corrupt_artifact``."""
    digest = next((row.sha256 for row in dataset.splits.all() if row.split == split), None)
    if digest is None:
        raise not_found(f"split {split!r} of this dataset", param="split")
    return stored_open(digest)


def split_table(file: IO[bytes]) -> tuple[list[str], Iterator[list[object]]]:
    """The columns of a split, and its rows. Lists are JSON, so that the table can be uploaded again."""
    rows = map(json.loads, file)
    first = next(rows)
    columns = list(first)
    return columns, ([_cell(row.get(column)) for column in columns] for row in chain([first], rows))


def _labels(row: Mapping[str, Any]) -> set[str]:
    """The labels of a row: its own, or those of its tokens."""
    if "label" in row:
        return {row["label"]}
    return {*row.get("labels", ()), *(tag[2:] for tag in row.get("tags", ()) if tag != "O")}


def _cell(value: Any) -> object:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value


def _place(file: IO[bytes], cursor: str) -> tuple[int, int]:
    """Go to the place of a cursor. The number of rows before it, and its offset."""
    number, _, offset = cursor.partition("-")
    if not cursor:
        return 0, 0
    if number.isdecimal() and offset.isdecimal() and int(offset[:18]) > 0 and len(offset) < 18:
        file.seek(int(offset) - 1)
        if file.read(1) == b"\n":
            return int(number[:18]), int(offset)
    raise HmiError(ErrorCode.INVALID_FIELD, "This cursor is invalid. Start without one.", param="cursor")
