"""JSON: one object a line, or one document with all objects, such as an array."""

import json
from collections.abc import Iterator
from io import StringIO
from itertools import islice
from typing import Any, Final

import regex

from tenants.base.errors import ErrorCode, HmiError
from tenants.base.strict_json import DuplicateKeyError, unique_keys
from tenants.datasets.formats.errors import MAX_CONTENT_LENGTH, file_error
from tenants.datasets.formats.lines import Source, read_lines
from tenants.datasets.formats.rows import ColumnMapping, OnRowError, RawRow, find_columns, raise_row_error
from tenants.datasets.formats.tool_exports import Record, is_accepted, records_of

EMPTY: tuple[object, ...] = (None, "", [])
SAMPLE_ROWS = 20
"""Rows whose fields are the columns of a file: one record may lack optional fields."""

MAX_KNOWN_KEYS: Final = 64
"""Records of a file have few sets of keys; their columns are looked up once."""

MAX_DOCUMENT_BYTES: Final = 64 * 1024 * 1024
"""A document is read as a whole; lines are not."""

_DECODER: Final = json.JSONDecoder(object_pairs_hook=unique_keys)
_WHITE_SPACE: Final = regex.compile(r"[ \t\n\r]*")

_Value = tuple[int, str, Any]
"""The first line of a JSON value, its text, and the value or the ``ValueError`` of invalid JSON."""


def read_jsonl(
    source: Source, columns: ColumnMapping, on_error: OnRowError = raise_row_error, *, document: bool = False
) -> Iterator[RawRow]:
    """The records of the lines, or of the ``document``. A value may have several records (``records_of``).

    ``malformed_row`` and ``missing_column`` go to ``on_error``. A missing column in the first record is
    raised: probably all records have other names. Of a document that is not valid JSON nothing is read.
    """
    known: dict[tuple[str, ...], dict[str, str]] = {}
    has_answers = "answer" in columns.required.values()
    row = 0
    for line, content, value in _values(source, document):
        try:
            records = _records(value)
        except ValueError as error:
            row += 1
            on_error(_malformed(error, source.name, line, row), row, content)
            continue
        for record in records:
            if not has_answers and not is_accepted(record):
                continue
            row += 1
            keys = tuple(record)
            try:
                names = known.get(keys) or find_columns(columns, keys, file=source.name, row=row, line=line)
            except HmiError as error:
                if row == 1 and error.code == ErrorCode.MISSING_COLUMN:
                    raise
                on_error(error, row, content)
                continue
            if len(known) < MAX_KNOWN_KEYS:
                known[keys] = names
            fields = {
                column: value
                for column, name in names.items()
                # null: the record does not have this optional column.
                if (value := record[name]) is not None or column not in columns.optional
            }
            yield RawRow(row, line, fields)


def jsonl_columns(source: Source, *, document: bool = False) -> Record:
    """The fields of the first records, each with its first non-empty value. Raises ``malformed_row``."""
    columns: Record = {}
    for row, (line, _, value) in enumerate(islice(_values(source, document), SAMPLE_ROWS), start=1):
        try:
            records = _records(value)
        except ValueError as error:
            raise _malformed(error, source.name, line, row) from error
        for record in records[:SAMPLE_ROWS]:
            columns |= {name: value for name, value in record.items() if columns.get(name) in EMPTY}
    return columns


def is_json(text: str) -> bool:
    """Whether the text is one complete JSON value."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _records(value: Any) -> list[Record]:
    if isinstance(value, ValueError):
        raise value
    return list(records_of(value))


def _values(source: Source, document: bool) -> Iterator[_Value]:
    return _document_values(source) if document else _line_values(source)


def _line_values(source: Source) -> Iterator[_Value]:
    for line in read_lines(source):
        if line.text.strip():
            try:
                value = _DECODER.decode(line.text)
            except (ValueError, RecursionError) as error:
                value = ValueError(_reason(error)).with_traceback(None)
                value.__cause__ = error
            yield line.number, line.text, value


def _document_values(source: Source) -> Iterator[_Value]:
    """The elements of the array, or the values that follow each other."""
    text = _document_text(source)
    at = _after_space(text, 0)
    is_array = text.startswith("[", at)
    at = _after_space(text, at + is_array)
    line, counted = 1, 0
    while at < len(text) or is_array:
        if is_array and text.startswith("]", at):
            is_array, at = False, _after_space(text, at + 1)
            continue
        begin = at
        try:
            value, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            where = (
                error.lineno if isinstance(error, json.JSONDecodeError) else text.count("\n", 0, begin) + 1
            )
            raise _malformed(ValueError(_reason(error)), source.name, where) from error
        line, counted = line + text.count("\n", counted, begin), begin
        yield line, text[begin : min(at, begin + MAX_CONTENT_LENGTH)], value
        at = _after_space(text, at)
        if is_array and text.startswith(",", at):
            at = _after_space(text, at + 1)
        elif is_array and not text.startswith("]", at):
            where = text.count("\n", 0, at) + 1
            raise _malformed(ValueError("not valid JSON: a comma or ']' is missing."), source.name, where)


def _document_text(source: Source) -> str:
    if source.path.stat().st_size > MAX_DOCUMENT_BYTES:
        raise file_error(
            ErrorCode.FILE_TOO_LARGE,
            f"one JSON value of more than {MAX_DOCUMENT_BYTES:,} bytes. Write JSON lines: one object a line.",
            file=source.name,
            limit=MAX_DOCUMENT_BYTES,
        )
    text = StringIO()
    for line in read_lines(source, max_bytes=MAX_DOCUMENT_BYTES):
        text.write(line.text + "\n")
    return text.getvalue()


def _after_space(text: str, at: int) -> int:
    found = _WHITE_SPACE.match(text, at)
    return found.end() if found else at


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"not valid JSON: {error.msg} at column {error.colno}."
    if isinstance(error, DuplicateKeyError):
        return f"not valid JSON: {error}."
    return "this JSON is too deeply nested, or has a number that is too long."


def _malformed(error: ValueError, file: str, line: int, row: int | None = None) -> HmiError:
    more = {}
    if isinstance(error.__cause__, json.JSONDecodeError):
        more = {"column": error.__cause__.colno}
    return file_error(ErrorCode.MALFORMED_ROW, str(error), file=file, row=row, line=line, **more)
