"""JSON lines: one object a line."""

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.formats.failures import bad_file
from tenants.datasets.formats.lines import Line, Source, read_lines
from tenants.datasets.formats.rows import Names, RawRow, Refused, refuse_at_once, refuse_missing

NOTHING: tuple[object, ...] = (None, "", [])
HEAD_ROWS = 20
"""Of these the fields are looked at: a record may lack what is optional."""


def read_jsonl(source: Source, names: Names, refused: Refused = refuse_at_once) -> Iterator[RawRow]:
    """The records; blank lines are skipped. ``malformed_row`` and ``missing_column`` go to ``refused``, but
    for a column that the first record lacks: that is raised, since it will be the columns' names.
    """
    row = 0
    for line in read_lines(source):
        if not line.text.strip():
            continue
        row += 1
        try:
            found = _object(line, row, source.name)
            refuse_missing(names, found, file=source.name, row=row, line=line.number)
        except HmiError as error:
            if row == 1 and error.code == ErrorCode.MISSING_COLUMN:
                raise
            refused(error, row, line.text)
            continue
        # A null stands for an optional column that this record does not have.
        present = (name for name, value in found.items() if value is not None)
        read = names.among(present)
        yield RawRow(row, line.number, {column: found[name] for column, name in read.items()})


def jsonl_columns(source: Source) -> dict[str, Any]:
    """The fields of the first records, each with the first value that says something. Raises what is wrong
    with a line."""
    lines = islice((line for line in read_lines(source) if line.text.strip()), HEAD_ROWS)
    columns: dict[str, Any] = {}
    for row, line in enumerate(lines, start=1):
        found = _object(line, row, source.name)
        columns |= {name: value for name, value in found.items() if columns.get(name) in NOTHING}
    return columns


def _object(line: Line, row: int, file: str) -> dict[str, Any]:
    try:
        found = json.loads(line.text)
    except json.JSONDecodeError as error:
        raise bad_file(
            ErrorCode.MALFORMED_ROW,
            f"not valid JSON: {error.msg} at column {error.colno}.",
            file=file,
            row=row,
            line=line.number,
            column=error.colno,
        ) from error
    except (ValueError, RecursionError) as error:
        # A number of thousands of digits, or brackets nested by the thousand.
        raise bad_file(
            ErrorCode.MALFORMED_ROW, "this JSON is beyond all measure.", file=file, row=row, line=line.number
        ) from error
    if not isinstance(found, dict):
        raise bad_file(
            ErrorCode.MALFORMED_ROW,
            f"JSON lines hold one object a line; this is {_kind(found)}.",
            file=file,
            row=row,
            line=line.number,
        )
    return found


def _kind(found: object) -> str:
    return {list: "an array", str: "a string", type(None): "null"}.get(type(found), "a number or truth value")
