"""Raw rows, as the readers of all formats yield them, and the columns of each task."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.formats.errors import file_error

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
    """Canonical column -> its name in the files. Optional columns are read if they are present."""

    required: Mapping[str, str]
    optional: Mapping[str, str] = field(default_factory=dict)

    def present_in(self, found: Iterable[str]) -> dict[str, str]:
        """The columns to read from a file or record with these columns."""
        present = set(found)
        return {
            **self.required,
            **{column: name for column, name in self.optional.items() if name in present},
        }


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
    )


def check_required_columns(
    columns: ColumnMapping,
    found: Iterable[str],
    *,
    file: str,
    row: int | None = None,
    line: int | None = None,
) -> None:
    """Raise ``missing_column`` unless all required columns were found."""
    present = list(found)
    missing = [name[:MAX_NAME_LENGTH] for name in columns.required.values() if name not in present]
    if missing:
        listed = [name[:MAX_NAME_LENGTH] for name in present[:MAX_COLUMNS_LISTED]]
        missing_names = " or ".join(map(repr, missing))
        raise file_error(
            ErrorCode.MISSING_COLUMN,
            f"no column {missing_names}; found: {', '.join(map(repr, listed)) or 'none'}."
            " Rename the columns, or map them.",
            file=file,
            row=row,
            line=line,
            needed=[name[:MAX_NAME_LENGTH] for name in columns.required.values()],
            missing=missing,
            found=listed,
        )
