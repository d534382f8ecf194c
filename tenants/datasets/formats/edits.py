"""Edits of stored rows: a row with other fields, a row that is left out, or a new row."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, Any, Final

from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.formats.examples import json_line

MAX_EDITS: Final = 1_000


@dataclass(frozen=True, slots=True)
class RowChange:
    """A change of a split. ``row``: counted from 1; None adds a row at the end. ``fields``: those that
    change, by their canonical names, or all fields of a new row; None leaves the row out."""

    split: str
    row: int | None
    fields: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class EditedRow:
    """A row before and after its change. ``before`` is None for a new row, ``after`` for one left out."""

    split: str
    row: int | None
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None


@dataclass(slots=True)
class SplitEdits:
    """The changes of a split: those of its rows, counted from 1, and new rows. ``done``: as written."""

    split: str
    of_rows: dict[int, Mapping[str, Any] | None] = field(default_factory=dict)
    added: list[Mapping[str, Any]] = field(default_factory=list)
    done: list[EditedRow] = field(default_factory=list)

    def write(self, source: IO[bytes], target: IO[bytes]) -> None:
        """Copy canonical rows with these changes. ``invalid_field`` for a field that a row does not have."""
        for number, line in enumerate(source, start=1):
            if number in self.of_rows:
                for edited in self._edited(number, json.loads(line)):
                    target.write(json_line(edited).encode())
            else:
                target.write(line)
        for row in self.added:
            self.done.append(EditedRow(self.split, None, None, row))
            target.write(json_line(dict(row)).encode())

    def _edited(self, number: int, before: dict[str, Any]) -> Iterator[dict[str, Any]]:
        fields = self.of_rows[number]
        if fields is None:
            self.done.append(EditedRow(self.split, number, before, None))
            return
        if unknown := sorted(set(fields) - set(before)):
            known = ", ".join(before)
            raise _invalid(f"{self.split}, row {number}: it has no field {unknown[0]!r}. It has {known}.")
        after = {**before, **fields}
        self.done.append(EditedRow(self.split, number, before, after))
        yield after


def edits_by_split(changes: Iterable[RowChange], rows: Mapping[str, int]) -> dict[str, SplitEdits]:
    """The changes of each split. ``rows``: how many each split has. ``invalid_field`` unless each is of a row
    that exists, and of no row twice."""
    edits: dict[str, SplitEdits] = {}
    counted: defaultdict[str, int] = defaultdict(int)
    for one in changes:
        if one.split not in rows:
            raise _invalid(f"There is no split {one.split!r}. The splits are {', '.join(rows)}.")
        of_split = edits.setdefault(one.split, SplitEdits(one.split))
        counted[one.split] += 1
        if one.row is None:
            if not one.fields:
                raise _invalid(f"{one.split}: a new row needs fields.")
            of_split.added.append(one.fields)
        elif not 1 <= one.row <= rows[one.split]:
            raise _invalid(f"{one.split} has no row {one.row}. Its {rows[one.split]:,} rows count from 1.")
        elif one.row in of_split.of_rows:
            raise _invalid(f"{one.split}, row {one.row} is changed twice.")
        else:
            of_split.of_rows[one.row] = one.fields
    if not 0 < sum(counted.values()) <= MAX_EDITS:
        raise _invalid(f"Give 1 to {MAX_EDITS:,} changes.")
    return edits


def _invalid(message: str) -> HmiError:
    return HmiError(ErrorCode.INVALID_FIELD, message, param="changes")
