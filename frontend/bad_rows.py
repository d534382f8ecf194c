"""Rows that were refused, as a file that opens in a spreadsheet."""

import csv
from collections.abc import Iterable, Mapping
from typing import Any

from django.http import HttpResponse

COLUMNS = ("file", "row", "line", "reason", "content")
FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")


def bad_rows_csv(faults: Iterable[Mapping[str, Any]]) -> HttpResponse:
    """One line for each row, to be downloaded; what would be a formula is kept from being one."""
    response = HttpResponse(
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": 'attachment; filename="bad-rows.csv"'},
    )
    response.write("\ufeff")  # spreadsheets take it for UTF-8 then
    writer = csv.writer(response)
    writer.writerow(COLUMNS)
    for fault in faults:
        writer.writerow(_plain(fault.get(column)) for column in COLUMNS)
    return response


def _plain(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA_SIGNS) else value
