"""CSV and TSV with a header row."""

import csv
from _csv import Reader
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, zip_longest
from typing import Final

import regex

from tenants.base.errors import ErrorCode
from tenants.datasets.formats.errors import file_error
from tenants.datasets.formats.lines import MAX_LINE_BYTES, Source, read_lines
from tenants.datasets.formats.normalization import column_key
from tenants.datasets.formats.rows import ColumnMapping, OnRowError, RawRow, find_columns, raise_row_error

DELIMITERS = ",\t;|"
SAMPLE_LINES = 50

MAX_HEADER_LENGTH: Final = 1 << 16
QUOTES_IN_TSV: Final = (
    "In a tab-separated file quotes are part of the text, unless each quoted field closes on its own line."
    " Save the file as CSV if texts have line ends."
)

_DELIMITER_LINE: Final = regex.compile(r"\s*\"?sep=([^\w\s\"]|\t)\"?\s*", regex.IGNORECASE)
"""Excel's line before the header, which names the delimiter."""
_FIELD: Final = r'(?:"(?:[^"]+|"")*+"|(?!")[^\t]*)'
_CLOSED_QUOTES: Final = regex.compile(rf"{_FIELD}(?:\t{_FIELD})*")


def read_table(
    source: Source, columns: ColumnMapping, on_error: OnRowError = raise_row_error
) -> Iterator[RawRow]:
    """The records below the header. Blank lines are skipped; the delimiter is detected.

    Raises ``missing_column`` for the header, and ``malformed_row`` for a column that is there twice, for
    misplaced quotes or a field beyond ``MAX_LINE_BYTES``. A row with more or fewer fields than the header
    goes to ``on_error``.
    """
    header, line, records, delimiter = _open(source, columns, whole=True)
    names = find_columns(columns, header, file=source.name, line=line)
    indexes = {column: header.index(name) for column, name in names.items()}
    # Below Label Studio's texts a blank cell is a text without spans; beside tokens it lacks their tags.
    has_texts = column_key(names.get("tokens", "")) == "text"
    for row, (line, record) in enumerate(records, start=1):
        if not any(field.strip() for field in record[len(header) :]):
            del record[len(header) :]  # delimiters at the end of a line
        if len(record) != len(header):
            quote = delimiter == "\t" and any('"' in field or "\t" in field for field in record)
            error = file_error(
                ErrorCode.MALFORMED_ROW,
                f"has {len(record)} fields where the header has {len(header)} (delimiter {delimiter!r})."
                + (f" {QUOTES_IN_TSV}" if quote else ""),
                file=source.name,
                row=row,
                line=line,
                fields=len(record),
                expected=len(header),
            )
            on_error(error, row, delimiter.join(record))
            continue
        fields = {column: record[index] for column, index in indexes.items()}
        if has_texts and not fields["tags"].strip():
            fields["tags"] = "[]"
        yield RawRow(row, line, fields)


def table_columns(source: Source, columns: ColumnMapping) -> dict[str, str]:
    """The columns of the header, each with its value in the first record. Raises as ``read_table``."""
    header, _, records, _ = _open(source, columns, whole=False)
    first = next((record for _, record in records), [])
    return dict(zip_longest(header, first[: len(header)], fillvalue=""))


def table_delimiter(lines: Sequence[str], columns: ColumnMapping) -> str | None:
    """The delimiter that the first of these lines names, or with which it has the required columns."""
    first = lines[0] if lines and len(lines[0]) <= MAX_HEADER_LENGTH else ""
    named = _DELIMITER_LINE.fullmatch(first)
    if named:
        return str(named[1])
    for candidate in DELIMITERS:
        found = columns.match(next(csv.reader([first], delimiter=candidate), []))
        if all(found.values()):
            return candidate
    return None


def _open(
    source: Source, columns: ColumnMapping, *, whole: bool
) -> tuple[list[str], int, Iterator[tuple[int, list[str]]], str]:
    """The header, its line, the records below it, and the delimiter. Quotes are those of the ``whole`` file,
    or of its first lines."""
    csv.field_size_limit(MAX_LINE_BYTES)
    lines = (line.text for line in read_lines(source))
    sample = list(islice(lines, SAMPLE_LINES))
    skipped = next((at for at, line in enumerate(sample) if line.strip()), 0)
    delimiter = _delimiter(sample[skipped:], columns)
    if sample and _DELIMITER_LINE.fullmatch(sample[skipped]):
        sample[skipped] = ""
    quoted = delimiter != "\t" or not _has_open_quote(
        (line.text for line in read_lines(source)) if whole else sample
    )
    reader = csv.reader(
        (line + "\n" for line in chain(sample, lines)),
        delimiter=delimiter,
        strict=True,
        quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
        skipinitialspace=quoted and _has_spaced_quotes(sample, delimiter),
    )
    records = _records(reader, source.name)
    line, header = next(records, (1, []))
    return [name.strip() for name in header], line, records, delimiter


def _has_open_quote(lines: Iterable[str]) -> bool:
    """Whether a field begins with a quote that does not close where a field ends on the same line."""
    return any('"' in line and not _CLOSED_QUOTES.fullmatch(line) for line in lines)


def _has_spaced_quotes(lines: Sequence[str], delimiter: str) -> bool:
    """Whether quoted fields have spaces before them, as in ``"a", "b"``, and none has text behind its end."""
    sign = regex.escape(delimiter)
    field = rf'(?:(?P<spaced> +"(?:[^"]++|"")*+")|"(?:[^"]++|"")*+"|[^"{sign}]*+)'
    line_form = regex.compile(rf"{field}(?:{sign}{field})*")
    candidates = [line for line in lines if regex.search(rf'{sign} +"', line)]
    found = [line_form.fullmatch(line) for line in candidates]
    return all(found) and any(match and match["spaced"] for match in found)


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


def _delimiter(sample: Sequence[str], columns: ColumnMapping) -> str:
    """The delimiter that fits the first line, or else the one that is sniffed."""
    found = table_delimiter(sample, columns)
    if found is not None:
        return found
    try:
        return csv.Sniffer().sniff("\n".join(sample)[:65536], delimiters=DELIMITERS).delimiter
    except csv.Error:
        return max(DELIMITERS, key="".join(sample[:1]).count)
