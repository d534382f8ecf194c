"""Guesses the task of a file from its first rows."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import islice
from typing import Final

from tenants.base.errors import HmiError
from tenants.datasets.formats.columns import read_columns
from tenants.datasets.formats.examples import TaggingExample
from tenants.datasets.formats.lines import Source
from tenants.datasets.formats.readers import read_rows
from tenants.datasets.formats.row_parser import RowParser
from tenants.datasets.formats.rows import column_mapping

ORDER: Final = (
    *("question_answering", "chat", "tagging", "generation"),
    *("classification", "multilabel", "regression"),
)
"""Of several tasks that read a file equally well the first is guessed."""
ROWS_READ: Final = 20


def guess_task(source: Source) -> str | None:
    """The task that reads most of the first rows: by the names of its own columns, or else by usual ones.
    None if no task reads any."""
    ways: tuple[Callable[[Source, str], int], ...] = (_rows_by_own_names, _rows_by_usual_names)
    for count in ways:
        rows = {task: count(source, task) for task in ORDER}
        best = max(ORDER, key=lambda task: rows[task])
        if rows[best]:
            return best
    return None


def _rows_by_own_names(source: Source, task: str) -> int:
    return _rows_read(source, task, None)


def _rows_by_usual_names(source: Source, task: str) -> int:
    columns = None
    with suppress(HmiError):
        columns = read_columns(source, task).needed_mapping(task)
    return 0 if columns is None else _rows_read(source, task, columns)


def _rows_read(source: Source, task: str, columns: Mapping[str, str] | None) -> int:
    """How many of the first rows are rows of the task. Any text is one without spans: it does not count."""
    parser, found = RowParser(task), 0
    with suppress(HmiError):
        _, rows = read_rows(source, task, column_mapping(task, columns))
        for raw in islice(rows, ROWS_READ):
            with suppress(HmiError):
                example = parser.parse(raw, source.name)
                found += not isinstance(example, TaggingExample) or set(example.tags) != {"O"}
    return found
