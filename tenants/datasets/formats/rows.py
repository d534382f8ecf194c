"""Raw rows, as the readers of all formats yield them, and the columns of each task."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.formats.errors import file_error
from tenants.datasets.formats.normalization import column_key
from tenants.datasets.formats.tool_exports import COLUMNS_BESIDE, TOOL_COLUMNS

REQUIRED_COLUMNS: dict[str, tuple[str, ...]] = {
    "classification": ("text", "label"),
    "multilabel": ("text", "labels"),
    "regression": ("text", "value"),
    "tagging": ("tokens", "tags"),
    "question_answering": ("question", "context", "answers"),
    "generation": ("prompt", "completion"),
    "chat": ("messages",),
}
"""Task -> its canonical columns."""

OPTIONAL_COLUMNS: dict[str, tuple[str, ...]] = dict.fromkeys(
    ("classification", "multilabel", "regression"), ("text_pair",)
)
"""Task -> columns that either all rows of a dataset have, or none."""

MAX_COLUMNS_LISTED, MAX_NAME_LENGTH = 20, 60
"""Limits of the columns in an error: a file without line ends has one column as long as itself."""


@dataclass(frozen=True, slots=True)
class ColumnMapping:
    """Canonical column -> its name in the files. Optional columns are read if they are present.

    ``tool_names``: what annotation tools call a required column that has no name of the uploader's.
    """

    required: Mapping[str, str]
    optional: Mapping[str, str] = field(default_factory=dict)
    tool_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def match(self, found: Iterable[str]) -> dict[str, list[str]]:
        """Canonical column -> its names among those found: several if it is there twice, none if it is
        missing. Optional columns that are missing are left out."""
        by_key: dict[str, list[str]] = {}
        for name in found:
            by_key.setdefault(column_key(name), []).append(name)
        matches = {}
        for column, name in {**self.required, **self.optional}.items():
            keys = map(column_key, (name, *self.tool_names.get(column, ())))
            matches[column] = next((by_key[key] for key in keys if key in by_key), [])
        for (column, key), beside in COLUMNS_BESIDE.items():
            if any(column_key(name) == key for name in matches.get(column, ())):
                matches |= {name: by_key[name] for name in beside if name in by_key}
        return {column: names for column, names in matches.items() if names or column in self.required}


@dataclass(frozen=True, slots=True)
class RawRow:
    """One record, its values by canonical column. ``row`` counts records and ``line`` lines, both from 1."""

    row: int
    line: int
    fields: dict[str, Any]
    lines_per_item: int = 0
    """1 if each item of a list has its own line (CoNLL), so that its errors can name the line."""


OnRowError = Callable[[HmiError, int, object], None]
"""Called with the error, number and content of a row that cannot be read. Reading continues after it."""


def raise_row_error(error: HmiError, _row: int, _content: object) -> NoReturn:
    """An ``OnRowError`` that stops at the first error."""
    raise error


def required_columns(task: str) -> tuple[str, ...]:
    """The canonical columns of the task. ``invalid_field`` for an unknown task."""
    try:
        return REQUIRED_COLUMNS[task]
    except KeyError:
        raise HmiError(
            ErrorCode.INVALID_FIELD,
            f"Unknown task: {task!r}. Tasks are {', '.join(REQUIRED_COLUMNS)}.",
            param="task",
        ) from None


def column_mapping(task: str, columns: Mapping[str, str] | None) -> ColumnMapping:
    """The name of each canonical column in the files: that in ``columns``, or else the same name.

    An optional column in ``columns`` is required.
    """
    required, optional = required_columns(task), OPTIONAL_COLUMNS.get(task, ())
    given = dict(columns or {})
    unknown = sorted(set(given) - {*required, *optional})
    if unknown:
        raise HmiError(
            ErrorCode.INVALID_FIELD,
            f"Unknown column: {', '.join(map(repr, unknown))}. Columns of {task} are"
            f" {', '.join((*required, *optional))}.",
            param="columns",
        )
    if not all(isinstance(name, str) and name for name in given.values()):
        raise HmiError(
            ErrorCode.INVALID_FIELD,
            "The name of each column in the file must be text that is not empty.",
            param="columns",
        )
    named = (*required, *(column for column in optional if column in given))
    return ColumnMapping(
        {column: given.get(column, column) for column in named},
        {column: column for column in optional if column not in given},
        {
            column: names
            for column, names in TOOL_COLUMNS.items()
            if column in required and column not in given
        },
    )


def find_columns(
    columns: ColumnMapping,
    found: Iterable[str],
    *,
    file: str,
    row: int | None = None,
    line: int | None = None,
) -> dict[str, str]:
    """Canonical column -> its name in the file. Raises ``missing_column`` for a required one that was not
    found, and ``malformed_row`` for one that is there twice."""
    present = list(found)
    matches = columns.match(present)
    for names in matches.values():
        if len(names) > 1:
            places = [place for place, name in enumerate(present, start=1) if name in names]
            raise file_error(
                ErrorCode.MALFORMED_ROW,
                f"the column {names[0][:MAX_NAME_LENGTH]!r} is there {len(names)} times, as columns"
                f" {', '.join(map(str, places))} (white space around a name and letter case do not matter)."
                " Rename or remove all but one.",
                file=file,
                row=row,
                line=line,
                column=names[0][:MAX_NAME_LENGTH],
                places=places,
            )
    missing = [columns.required[column][:MAX_NAME_LENGTH] for column, names in matches.items() if not names]
    if missing:
        listed = [name[:MAX_NAME_LENGTH] for name in present[:MAX_COLUMNS_LISTED]]
        missing_names = " or ".join(map(repr, missing))
        raise file_error(
            ErrorCode.MISSING_COLUMN,
            f"no column {missing_names}; found: {', '.join(map(repr, listed)) or 'none'}."
            " Choose which column is which.",
            file=file,
            row=row,
            line=line,
            needed=[name[:MAX_NAME_LENGTH] for name in columns.required.values()],
            missing=missing,
            found=listed,
        )
    return {column: names[0] for column, names in matches.items()}
