"""Files that a browser saves."""

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

from django.http import FileResponse, HttpResponse, StreamingHttpResponse
from django.utils.http import content_disposition_header

from tenants.base.csv_files import csv_chunks

SPOOLED_BYTES: Final = 4 * 1024**2


class Saved(FileResponse):
    """An attachment, in pieces that are worth a call each."""

    block_size = 1024**2


def table_saved(name: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Saved:
    """A table as a file for spreadsheets. All rows are read before the first is sent, on disk where they are
    many: a slow client holds no connection of the database, and what goes wrong is told and not cut off."""
    file: IO[bytes] = tempfile.SpooledTemporaryFile(SPOOLED_BYTES)  # noqa: SIM115 - the response closes it
    file.writelines(csv_chunks(columns, rows))
    size = file.tell()
    file.seek(0)
    response = Saved(file, as_attachment=True, filename=name, content_type="text/csv; charset=utf-8")
    response.headers["Content-Length"] = str(size)
    return response


def table_streamed(
    name: str, columns: Sequence[str], rows: Iterable[Sequence[object]]
) -> StreamingHttpResponse:
    """The same, sent while the rows are read; they must hold no connection of the database between two."""
    return StreamingHttpResponse(
        csv_chunks(columns, rows),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": str(content_disposition_header(True, name))},
    )


def file_saved(path: Path, name: str) -> Saved:
    """A file that lies on disk. Raises FileNotFoundError."""
    return Saved(path.open("rb"), as_attachment=True, filename=name)


COLUMNS = ("file", "row", "line", "reason", "content")


def bad_rows_csv(faults: Iterable[Mapping[str, Any]]) -> HttpResponse:
    """One line for each row, to be downloaded; what would be a formula is kept from being one."""
    rows = ([fault.get(column) for column in COLUMNS] for fault in faults)
    return HttpResponse(
        b"".join(csv_chunks(COLUMNS, rows)),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": 'attachment; filename="bad-rows.csv"'},
    )
