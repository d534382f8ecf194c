"""CSV files that open safely in a spreadsheet."""

import csv
import io
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Final
from unicodedata import category, normalize

FORMULA_STARTS: Final = ("=", "+", "-", "@", "\N{MINUS SIGN}", "\t", "\r", "\n")
INVISIBLE: Final = ("C", "Z")
"""The first letters of the Unicode categories of control, format and space characters."""
BYTE_ORDER_MARK: Final = "\ufeff"
"""Makes spreadsheets read the file as UTF-8."""
ROWS_PER_CHUNK: Final = 500
MAX_MEMORY_BYTES: Final = 4 * 1024**2


def csv_chunks(columns: Sequence[str], rows: Iterable[Sequence[object]], *, kept: int = 0) -> Iterator[bytes]:
    """Yield the file in chunks. Cells that a spreadsheet would run as formulas are escaped, except those in
    the first ``kept`` columns: of a table that its sender gets back."""
    sink = io.StringIO()
    writer = csv.writer(sink)
    sink.write(BYTE_ORDER_MARK)
    writer.writerow(columns)
    for number, row in enumerate(rows, start=1):
        writer.writerow([*row[:kept], *map(_escape_formula, row[kept:])])
        if number % ROWS_PER_CHUNK == 0:
            yield _drain(sink)
    yield _drain(sink)


def csv_file(columns: Sequence[str], rows: Iterable[Sequence[object]], *, kept: int = 0) -> IO[bytes]:
    """The file as `csv_chunks` yields it, complete and open at its beginning: a slow client then holds no
    database connection, and an error while reading gives an error answer."""
    file: IO[bytes] = tempfile.SpooledTemporaryFile(MAX_MEMORY_BYTES)  # noqa: SIM115 - the caller closes it
    file.writelines(csv_chunks(columns, rows, kept=kept))
    file.seek(0)
    return file


def _escape_formula(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and _is_formula(value) else value


def _is_formula(text: str) -> bool:
    """Whether a spreadsheet could take the text for a formula.

    Some spreadsheets skip spaces and invisible characters, and read full-width signs as plain ones.
    """
    if text.startswith(FORMULA_STARTS):
        return True
    first = next((letter for letter in text if not category(letter).startswith(INVISIBLE)), "")
    return normalize("NFKC", first).startswith(FORMULA_STARTS)


def _drain(sink: io.StringIO) -> bytes:
    text = sink.getvalue()
    sink.seek(0)
    sink.truncate()
    return text.encode()
