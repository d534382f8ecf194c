"""Reads which columns a file has, from its first rows, so that a user can map them."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from tenants.base.errors import HmiError
from tenants.datasets.formats.conll import conll_columns
from tenants.datasets.formats.jsonl import jsonl_columns
from tenants.datasets.formats.lines import Source
from tenants.datasets.formats.readers import detect_format, read_rows
from tenants.datasets.formats.rows import (
    OPTIONAL_COLUMNS,
    REQUIRED_COLUMNS,
    ColumnMapping,
    column_mapping,
    required_columns,
)
from tenants.datasets.formats.table import table_columns

MAX_COLUMNS: Final = 200
MAX_NAME_LENGTH: Final = 200
"""A file without line ends has one column as long as itself."""
MAX_EXAMPLE_LENGTH: Final = 24
USUAL_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "text": ("sentence", "message", "body", "content", "review", "utterance", "sentence1", "premise"),
    "text_pair": ("sentence2", "hypothesis", "second", "passage"),
    "label": ("category", "class", "intent", "topic", "sentiment", "target"),
    "labels": ("categories", "classes", "topics", "label"),
    "value": ("score", "rating", "target", "label"),
    "tokens": ("words",),
    "tags": ("ner_tags", "labels"),
    "context": ("passage", "paragraph", "text"),
    "answers": ("answer",),
    "prompt": ("instruction", "input", "question"),
    "completion": ("response", "output", "answer"),
    "messages": ("conversation", "conversations", "dialogue"),
}
"""What files often call a task's column, the likeliest first."""
LIKELY_LABELS: Final = ("kind", "type", "tag", "group", "status", "queue", "department")
"""What files call a label, and many other things: taken if the column has few different values."""
ROWS_SAMPLED: Final = 100
ROWS_PER_LABEL: Final = 3
"""A column of labels has at least so many rows of each on average."""


@dataclass(slots=True)
class FileColumns:
    """Columns of files, each with a short example, and the default mapping of a task's columns to them.
    ``categories``: those of LIKELY_LABELS that have few different values."""

    examples: dict[str, str] = field(default_factory=dict)
    default_mapping: dict[str, str] = field(default_factory=dict)
    categories: tuple[str, ...] = ()

    def guessed_mapping(self, task: str) -> dict[str, str]:
        """Columns that a file calls by a usual name, by the task's columns that it lacks. Letter case does
        not matter, and no column of the file is guessed twice."""
        by_name = {name.lower(): name for name in reversed(self.examples)}
        free = by_name.keys() - {name.lower() for name in self.default_mapping.values()}
        guessed: dict[str, str] = {}
        for column in task_columns(task):
            if column in self.default_mapping:
                continue
            likely = self.categories if column == "label" else ()
            names = (column, *USUAL_NAMES.get(column, ()), *likely)
            found = next((name for name in names if name in free), None)
            if found is not None:
                guessed[column] = by_name[found]
                free = free - {found}
        return guessed

    def needed_mapping(self, task: str) -> dict[str, str] | None:
        """The guessed mapping, if the files lack columns of the task. None if they have them, or if none can
        be guessed."""
        missing = set(required_columns(task)) - self.default_mapping.keys()
        return (self.guessed_mapping(task) or None) if missing else None

    def add(self, other: "FileColumns") -> None:
        """Merge the columns of another file. Columns that are there already keep their values."""
        self.examples = {**other.examples, **self.examples}
        self.default_mapping = {**other.default_mapping, **self.default_mapping}
        self.categories = self.categories or other.categories


def task_columns(task: str) -> tuple[str, ...]:
    """The canonical columns of a task in the order of a form, including optional ones."""
    first, *others = REQUIRED_COLUMNS[task]
    return (first, *OPTIONAL_COLUMNS.get(task, ()), *others)


def read_columns(source: Source, task: str, columns: Mapping[str, str] | None = None) -> FileColumns:
    """The columns of a file, with the delimiter that fits the mapping ``columns``. Reads only its beginning.

    Raises the typed error of an invalid file, and ``invalid_field`` for an unknown task.
    """
    required_columns(task)
    mapping = _mapping(task, columns)
    kind = detect_format(source, task, mapping)
    if kind == "conll":
        values = conll_columns(source)
        default = {"tokens": "1", "tags": str(len(values))} if values else {}
    else:
        values = (
            jsonl_columns(source, document=kind == "json")
            if kind in {"json", "jsonl"}
            else table_columns(source, mapping)
        )
        matches = column_mapping(task, None).match(values)
        default = {column: matches[column][0] for column in task_columns(task) if matches.get(column)}
    names = [name for name in values if name and len(name) <= MAX_NAME_LENGTH][:MAX_COLUMNS]
    examples = {name: _example(values[name]) for name in names}
    return FileColumns(examples, default, () if kind == "conll" else _categories(source, task, names))


def _categories(source: Source, task: str, names: Sequence[str]) -> tuple[str, ...]:
    """The likely labels among these columns that have few different values in the first rows."""
    if "label" not in required_columns(task):
        return ()
    by_name = {name.lower(): name for name in reversed(names)}
    return tuple(
        likely for likely in LIKELY_LABELS if likely in by_name and _repeats(source, by_name[likely])
    )


def _repeats(source: Source, name: str) -> bool:
    found: Counter[str] = Counter()
    with suppress(HmiError):
        _, rows = read_rows(source, "classification", ColumnMapping({"label": name}))
        found.update(str(row.fields["label"]) for row in islice(rows, ROWS_SAMPLED))
    return 1 < len(found) <= found.total() / ROWS_PER_LABEL


def _mapping(task: str, columns: Mapping[str, str] | None) -> ColumnMapping:
    try:
        return column_mapping(task, columns)
    except HmiError:
        return column_mapping(task, None)


def _example(value: Any) -> str:
    text = " ".join((value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).split())
    return text if len(text) <= MAX_EXAMPLE_LENGTH else f"{text[:MAX_EXAMPLE_LENGTH].rstrip()}…"
