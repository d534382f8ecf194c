"""CSV and TSV with a header row."""

import csv
from _csv import Reader
from collections.abc import Iterator
from itertools import chain, islice, zip_longest

from tenants.base.errors import ErrorCode
from tenants.datasets.formats.errors import file_error
from tenants.datasets.formats.lines import MAX_LINE_BYTES, Source, read_lines
from tenants.datasets.formats.rows import (
    ColumnMapping,
    OnRowError,
    RawRow,
    check_required_columns,
    raise_row_error,
)

DELIMITERS = ",\t;|"
SAMPLE_LINES = 50


def read_table(
    source: Source, columns: ColumnMapping, on_error: OnRowError = raise_row_error
) -> Iterator[RawRow]:
    """The records below the header. Blank lines are skipped; the delimiter is detected.

    Raises ``missing_column`` for the header, and ``malformed_row`` for misplaced quotes or a field beyond
    ``MAX_LINE_BYTES``. A row with more or fewer fields than the header goes to ``on_error``.
    """
    header, records, delimiter = _open(source, columns)
    check_required_columns(columns, header, file=source.name, line=1)
    indexes = {column: header.index(name) for column, name in columns.present_in(header).items()}
    for row, (line, record) in enumerate(records, start=1):
        if len(record) != len(header):
            error = file_error(
                ErrorCode.MALFORMED_ROW,
                f"has {len(record)} fields where the header has {len(header)} (delimiter {delimiter!r}).",
                file=source.name,
                row=row,
                line=line,
                fields=len(record),
                expected=len(header),
            )
            on_error(error, row, delimiter.join(record))
            continue
        yield RawRow(row, line, {column: record[index] for column, index in indexes.items()})


def table_columns(source: Source, columns: ColumnMapping) -> dict[str, str]:
    """The columns of the header, each with its value in the first record. Raises as ``read_table``."""
    header, records, _ = _open(source, columns)
    first = next((record for _, record in records), [])
    return dict(zip_longest(header, first[: len(header)], fillvalue=""))


def _open(source: Source, columns: ColumnMapping) -> tuple[list[str], Iterator[tuple[int, list[str]]], str]:
    """The header, the records below it, and the delimiter."""
    csv.field_size_limit(MAX_LINE_BYTES)
    lines = (line.text + "\n" for line in read_lines(source))
    sample = list(islice(lines, SAMPLE_LINES))
    delimiter = _delimiter(sample, columns)
    records = _records(csv.reader(chain(sample, lines), delimiter=delimiter, strict=True), source.name)
    header = [name.strip() for _, name_row in islice(records, 1) for name in name_row]
    return header, records, delimiter


def _records(reader: Reader, file: str) -> Iterator[tuple[int, list[str]]]:
    """Each record with its first line."""
    while True:
        line = reader.line_num + 1
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise file_error(
                ErrorCode.MALFORMED_ROW,
                f"not valid CSV from here: {error} (a misplaced or unclosed quote?).",
                file=file,
                line=line,
            ) from error
        if any(field.strip() for field in record):
            yield line, record


def _delimiter(sample: list[str], columns: ColumnMapping) -> str:
    """The delimiter with which the header has the required columns, or else the one that is sniffed."""
    header = next((line for line in sample if line.strip()), "")
    for candidate in DELIMITERS:
        found = {name.strip() for name in next(csv.reader([header], delimiter=candidate), [])}
        if found.issuperset(columns.required.values()):
            return candidate
    try:
        return csv.Sniffer().sniff("".join(sample)[:65536], delimiters=DELIMITERS).delimiter
    except csv.Error:
        return max(DELIMITERS, key=header.count)
