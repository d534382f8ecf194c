"""The rows of a split by their numbers, and a split as a file."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import IO, Any, Final

from tenants.base.errors import ErrorCode, HmiError, not_found
from tenants.datasets.models import Dataset
from tenants.datasets.selectors.rows import RowFilter
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


def split_page(
    dataset: Dataset, *, split: str, label: str = "", words: str = "", cursor: str = "", limit: int
) -> SplitPage:
    """The rows of a split with this label and all of these words, in any letter case.

    Raises ``not_found`` for a split that the dataset does not have, ``invalid_field`` for a cursor that no
    page has, ``corrupt_artifact`` if the file is gone.
    """
    wanted = RowFilter(words=tuple(words.lower().split()), label=label)
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
