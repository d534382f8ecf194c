"""What a format yields before anything is checked, and which columns a task needs."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.formats.failures import bad_file

NEEDED: dict[str, tuple[str, ...]] = {
    "classification": ("text", "label"),
    "multilabel": ("text", "labels"),
    "regression": ("text", "value"),
    "tagging": ("tokens", "tags"),
    "question_answering": ("question", "context", "answers"),
}
"""The canonical columns of each task."""

OPTIONAL: dict[str, tuple[str, ...]] = dict.fromkeys(
    ("classification", "multilabel", "regression"), ("text_pair",)
)
"""Columns that all rows of a dataset have, or none."""

MOST_SHOWN, LONGEST_SHOWN = 20, 60
"""Of the columns that a refusal names: a file without line ends has one as long as itself."""


@dataclass(frozen=True, slots=True)
class Names:
    """Canonical column -> its name in the files. The optional ones are read where they are there."""

    needed: Mapping[str, str]
    optional: Mapping[str, str] = field(default_factory=dict)

    def among(self, found: Iterable[str]) -> dict[str, str]:
        """The columns to read from a file or record that has these."""
        present = set(found)
        return {
            **self.needed,
            **{column: name for column, name in self.optional.items() if name in present},
        }


@dataclass(frozen=True, slots=True)
class RawRow:
    """One record, its values by canonical column; ``row`` counts records and ``line`` lines, both from 1."""

    row: int
    line: int
    fields: dict[str, Any]
    lines_per_item: int = 0
    """1 where each item of a list has its own line (CoNLL), so that a fault in it can be located."""


Refused = Callable[[HmiError, int, object], None]
"""Told of a row that cannot be read: why, its number, and what stands there; what follows is read on."""


def refuse_at_once(error: HmiError, _row: int, _content: object) -> NoReturn:
    """The first row that cannot be read ends the reading."""
    raise error


def needed_columns(task: str) -> tuple[str, ...]:
    """The canonical columns of the task; an unknown one is ``invalid_field``."""
    try:
        return NEEDED[task]
    except KeyError:
        raise HmiError(
            ErrorCode.INVALID_FIELD, f"A task is one of {', '.join(NEEDED)}; not {task!r}.", param="task"
        ) from None


def column_names(task: str, columns: Mapping[str, str] | None) -> Names:
    """Each canonical column's name in the files: as ``columns`` maps it, else the same name.

    An optional column that ``columns`` names is needed, too.
    """
    needed, optional = needed_columns(task), OPTIONAL.get(task, ())
    given = dict(columns or {})
    unknown = sorted(set(given) - {*needed, *optional})
    if unknown:
        raise HmiError(
            ErrorCode.INVALID_FIELD,
            f"Columns of {task} are {' and '.join((*needed, *optional))};"
            f" {', '.join(map(repr, unknown))} is none of them.",
            param="columns",
        )
    if not all(isinstance(name, str) and name for name in given.values()):
        raise HmiError(
            ErrorCode.INVALID_FIELD, "Each column is mapped to a name in the file.", param="columns"
        )
    asked = (*needed, *(column for column in optional if column in given))
    return Names(
        {column: given.get(column, column) for column in asked},
        {column: column for column in optional if column not in given},
    )


def refuse_missing(
    names: Names,
    found: Iterable[str],
    *,
    file: str,
    row: int | None = None,
    line: int | None = None,
) -> None:
    """Raise ``missing_column`` unless all the needed columns were found."""
    present = list(found)
    missing = [name[:LONGEST_SHOWN] for name in names.needed.values() if name not in present]
    if missing:
        some = [name[:LONGEST_SHOWN] for name in present[:MOST_SHOWN]]
        shown = ", ".join(map(repr, some)) or "none"
        raise bad_file(
            ErrorCode.MISSING_COLUMN,
            f"needs the column {' and '.join(map(repr, missing))}; found: {shown}."
            " Rename the columns, or say which is which.",
            file=file,
            row=row,
            line=line,
            needed=[name[:LONGEST_SHOWN] for name in names.needed.values()],
            missing=missing,
            found=some,
        )
