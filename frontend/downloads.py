"""Responses that a browser saves as a file."""

from collections.abc import Iterable, Mapping, Sequence
from os import SEEK_END
from pathlib import Path
from typing import Any, Final

from django.http import FileResponse, HttpResponse, StreamingHttpResponse
from django.utils.http import content_disposition_header

from tenants.base.csv_files import csv_chunks, csv_file

CSV_TYPE: Final = "text/csv; charset=utf-8"
BAD_ROW_COLUMNS: Final = ("file", "row", "line", "reason", "content")


class DownloadResponse(FileResponse):
    """An attachment, sent in blocks of 1 MiB."""

    block_size = 1024**2


def csv_response(name: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> DownloadResponse:
    """Return rows as a CSV file, read completely before the first byte is sent."""
    file = csv_file(columns, rows)
    size = file.seek(0, SEEK_END)
    file.seek(0)
    response = DownloadResponse(file, as_attachment=True, filename=name, content_type=CSV_TYPE)
    response.headers["Content-Length"] = str(size)
    return response


def csv_stream_response(
    name: str, columns: Sequence[str], rows: Iterable[Sequence[object]]
) -> StreamingHttpResponse:
    """Return rows as a CSV file, sent while they are read. `rows` must not hold a database connection."""
    disposition = str(content_disposition_header(True, name))
    headers = {"Content-Disposition": disposition}
    return StreamingHttpResponse(csv_chunks(columns, rows), content_type=CSV_TYPE, headers=headers)


def file_response(path: Path, name: str) -> DownloadResponse:
    """Return a file on disk as an attachment. Raises FileNotFoundError."""
    return DownloadResponse(path.open("rb"), as_attachment=True, filename=name)


def bad_rows_response(faults: Iterable[Mapping[str, Any]]) -> HttpResponse:
    """Return the rejected rows of an upload as a CSV file, each with its position and the reason."""
    rows = ([fault.get(column) for column in BAD_ROW_COLUMNS] for fault in faults)
    return HttpResponse(
        b"".join(csv_chunks(BAD_ROW_COLUMNS, rows)),
        content_type=CSV_TYPE,
        headers={"Content-Disposition": 'attachment; filename="bad-rows.csv"'},
    )
