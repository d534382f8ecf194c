"""Tables as files that open in a spreadsheet."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

FORMULA_SIGNS: Final = ("=", "+", "-", "@", "\t", "\r")
BYTE_ORDER_MARK: Final = "\ufeff"
"""Spreadsheets take the file for UTF-8 then."""
LINES_AT_ONCE: Final = 500


def csv_chunks(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[bytes]:
    """The file, piece by piece; what would be a formula is kept from being one."""
    sink = io.StringIO()
    writer = csv.writer(sink)
    sink.write(BYTE_ORDER_MARK)
    writer.writerow(columns)
    for number, row in enumerate(rows, start=1):
        writer.writerow([plain(value) for value in row])
        if number % LINES_AT_ONCE == 0:
            yield _taken(sink)
    yield _taken(sink)


def plain(value: object) -> object:
    """A value that no spreadsheet computes."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA_SIGNS) else value


def _taken(sink: io.StringIO) -> bytes:
    text = sink.getvalue()
    sink.seek(0)
    sink.truncate()
    return text.encode()
