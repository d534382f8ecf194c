"""Rows that were refused, as a file that opens in a spreadsheet."""

from collections.abc import Iterable, Mapping
from typing import Any

from django.http import HttpResponse

from tenants.base.csv_files import csv_chunks

COLUMNS = ("file", "row", "line", "reason", "content")


def bad_rows_csv(faults: Iterable[Mapping[str, Any]]) -> HttpResponse:
    """One line for each row, to be downloaded; what would be a formula is kept from being one."""
    rows = ([fault.get(column) for column in COLUMNS] for fault in faults)
    return HttpResponse(
        b"".join(csv_chunks(COLUMNS, rows)),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": 'attachment; filename="bad-rows.csv"'},
    )
