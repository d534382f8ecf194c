"""JSON lines: one object a line."""

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.formats.errors import file_error
from tenants.datasets.formats.lines import Line, Source, read_lines
from tenants.datasets.formats.rows import (
    ColumnMapping,
    OnRowError,
    RawRow,
    check_required_columns,
    raise_row_error,
)

EMPTY: tuple[object, ...] = (None, "", [])
SAMPLE_ROWS = 20
"""Rows whose fields are the columns of a file: one record may lack optional fields."""


def read_jsonl(
    source: Source, columns: ColumnMapping, on_error: OnRowError = raise_row_error
) -> Iterator[RawRow]:
    """The records of the file. Blank lines are skipped.

    ``malformed_row`` and ``missing_column`` go to ``on_error``. A missing column in the first record is
    raised: probably all records have other names.
    """
    row = 0
    for line in read_lines(source):
        if not line.text.strip():
            continue
        row += 1
        try:
            found = _object(line, row, source.name)
            check_required_columns(columns, found, file=source.name, row=row, line=line.number)
        except HmiError as error:
            if row == 1 and error.code == ErrorCode.MISSING_COLUMN:
                raise
            on_error(error, row, line.text)
            continue
        # null: the record does not have this optional column.
        present = (name for name, value in found.items() if value is not None)
        names = columns.present_in(present)
        yield RawRow(row, line.number, {column: found[name] for column, name in names.items()})


def jsonl_columns(source: Source) -> dict[str, Any]:
    """The fields of the first records, each with its first non-empty value. Raises ``malformed_row``."""
    lines = islice((line for line in read_lines(source) if line.text.strip()), SAMPLE_ROWS)
    columns: dict[str, Any] = {}
    for row, line in enumerate(lines, start=1):
        found = _object(line, row, source.name)
        columns |= {name: value for name, value in found.items() if columns.get(name) in EMPTY}
    return columns


def _object(line: Line, row: int, file: str) -> dict[str, Any]:
    try:
        found = json.loads(line.text)
    except json.JSONDecodeError as error:
        raise file_error(
            ErrorCode.MALFORMED_ROW,
            f"not valid JSON: {error.msg} at column {error.colno}.",
            file=file,
            row=row,
            line=line.number,
            column=error.colno,
        ) from error
    except (ValueError, RecursionError) as error:
        # A number with thousands of digits, or thousands of nested brackets.
        raise file_error(
            ErrorCode.MALFORMED_ROW,
            "this JSON is too deeply nested, or has a number that is too long.",
            file=file,
            row=row,
            line=line.number,
        ) from error
    if not isinstance(found, dict):
        raise file_error(
            ErrorCode.MALFORMED_ROW,
            f"each line must be a JSON object; this is {_kind(found)}.",
            file=file,
            row=row,
            line=line.number,
        )
    return found


def _kind(found: object) -> str:
    return {list: "an array", str: "a string", type(None): "null"}.get(type(found), "a number or boolean")
