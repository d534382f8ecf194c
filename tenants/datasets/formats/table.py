"""CSV and TSV with a header row."""

import csv
from _csv import Reader
from collections.abc import Iterator
from itertools import chain, islice, zip_longest

from tenants.base.errors import ErrorCode
from tenants.datasets.formats.failures import bad_file
from tenants.datasets.formats.lines import LONGEST_LINE_BYTES, Source, read_lines
from tenants.datasets.formats.rows import Names, RawRow, Refused, refuse_at_once, refuse_missing

DELIMITERS = ",\t;|"
SAMPLE_LINES = 50


def read_table(source: Source, names: Names, refused: Refused = refuse_at_once) -> Iterator[RawRow]:
    """The records below the header; blank lines are skipped. The delimiter is found out.

    Raises ``missing_column`` for the header, ``malformed_row`` for quotes out of place and for a field beyond
    ``LONGEST_LINE_BYTES``. A row with more or fewer fields than the header goes to ``refused``.
    """
    header, records, delimiter = _opened(source, names)
    refuse_missing(names, header, file=source.name, line=1)
    places = {column: header.index(name) for column, name in names.among(header).items()}
    for row, (line, record) in enumerate(records, start=1):
        if len(record) != len(header):
            error = bad_file(
                ErrorCode.MALFORMED_ROW,
                f"has {len(record)} fields where the header has {len(header)} (delimiter {delimiter!r}).",
                file=source.name,
                row=row,
                line=line,
                fields=len(record),
                expected=len(header),
            )
            refused(error, row, delimiter.join(record))
            continue
        yield RawRow(row, line, {column: record[place] for column, place in places.items()})


def table_columns(source: Source, names: Names) -> dict[str, str]:
    """The columns of the header, each with what the first record has there. Raises as ``read_table``."""
    header, records, _ = _opened(source, names)
    first = next((record for _, record in records), [])
    return dict(zip_longest(header, first[: len(header)], fillvalue=""))


def _opened(source: Source, names: Names) -> tuple[list[str], Iterator[tuple[int, list[str]]], str]:
    """The header, the records below it, and the delimiter."""
    csv.field_size_limit(LONGEST_LINE_BYTES)
    lines = (line.text + "\n" for line in read_lines(source))
    sample = list(islice(lines, SAMPLE_LINES))
    delimiter = _delimiter(sample, names)
    records = _records(csv.reader(chain(sample, lines), delimiter=delimiter, strict=True), source.name)
    header = [name.strip() for _, name_row in islice(records, 1) for name in name_row]
    return header, records, delimiter


def _records(reader: Reader, file: str) -> Iterator[tuple[int, list[str]]]:
    """Each record with the line on which it begins."""
    while True:
        begins = reader.line_num + 1
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise bad_file(
                ErrorCode.MALFORMED_ROW,
                f"not readable as CSV from here: {error} (a quote out of place or never closed?).",
                file=file,
                line=begins,
            ) from error
        if any(field.strip() for field in record):
            yield begins, record


def _delimiter(sample: list[str], names: Names) -> str:
    """The delimiter that makes the header name the wanted columns; else what the sample looks like."""
    header = next((line for line in sample if line.strip()), "")
    for candidate in DELIMITERS:
        found = {name.strip() for name in next(csv.reader([header], delimiter=candidate), [])}
        if found.issuperset(names.needed.values()):
            return candidate
    try:
        return csv.Sniffer().sniff("".join(sample)[:65536], delimiters=DELIMITERS).delimiter
    except csv.Error:
        return max(DELIMITERS, key=header.count)
