"""Files of a takeout that are tables."""

import json
from collections.abc import Sequence
from typing import Any, Final

from django.db.models import QuerySet

from tenants.base.csv_files import csv_chunks
from tenants.base.hooks import TakeoutPart

ROWS_AT_ONCE: Final = 2_000


def table_part(name: str, rows: QuerySet[Any, Any], columns: Sequence[str]) -> TakeoutPart:
    """These columns of the rows as a CSV file."""
    values = rows.values_list(*columns).iterator(ROWS_AT_ONCE)
    header = [column.replace("__", "_") for column in columns]
    return TakeoutPart(name, csv_chunks(header, ([_written(value) for value in row] for row in values)))


def _written(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value
