"""Which columns the files of a dataset have, by a look at their first rows: what can be chosen from."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tenants.base.errors import HmiError
from tenants.datasets.formats.conll import conll_columns
from tenants.datasets.formats.dataset import format_of
from tenants.datasets.formats.jsonl import jsonl_columns
from tenants.datasets.formats.lines import Source
from tenants.datasets.formats.rows import NEEDED, OPTIONAL, Names, column_names, needed_columns
from tenants.datasets.formats.table import table_columns

MOST_COLUMNS: Final = 200


LONGEST_NAME: Final = 200
"""Characters: a file without line ends has one column as long as itself."""


LONGEST_EXAMPLE: Final = 24


@dataclass(slots=True)
class ColumnsFound:
    """The columns of files, each with the beginning of what stands there first, and which of them are read
    for a task where nobody says otherwise: its canonical columns -> theirs."""

    examples: dict[str, str] = field(default_factory=dict)
    usual: dict[str, str] = field(default_factory=dict)

    def add(self, other: "ColumnsFound") -> None:
        """Those of a further file; what the files before it have stays."""
        self.examples = {**other.examples, **self.examples}
        self.usual = {**other.usual, **self.usual}


def task_columns(task: str) -> tuple[str, ...]:
    """The canonical columns of a task in the order in which people name them, the optional ones too."""
    first, *others = NEEDED[task]
    return (first, *OPTIONAL.get(task, ()), *others)


def columns_found(source: Source, task: str, columns: Mapping[str, str] | None = None) -> ColumnsFound:
    """The columns of a file that is read as ``columns`` maps them. Reads no more than its beginning, and
    raises what is wrong with it that far, and ``invalid_field`` for an unknown task."""
    needed_columns(task)
    kind = format_of(source, task)
    if kind == "conll":
        places = conll_columns(source)
        usual = {"tokens": "1", "tags": str(len(places))} if places else {}
    else:
        places = jsonl_columns(source) if kind == "jsonl" else table_columns(source, _names(task, columns))
        usual = {column: column for column in task_columns(task) if column in places}
    named = [name for name in places if name and len(name) <= LONGEST_NAME][:MOST_COLUMNS]
    return ColumnsFound({name: _shown(places[name]) for name in named}, usual)


def _names(task: str, columns: Mapping[str, str] | None) -> Names:
    try:
        return column_names(task, columns)
    except HmiError:
        return column_names(task, None)


def _shown(value: Any) -> str:
    text = " ".join((value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).split())
    return text if len(text) <= LONGEST_EXAMPLE else f"{text[:LONGEST_EXAMPLE].rstrip()}…"
