"""Tables as input of a batch: CSV and TSV with a header, and plain text with a text a line.

A worker writes the rows as lines first, and at the end the answers beside the cells of the rows.
"""

import heapq
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count, islice
from pathlib import Path
from typing import Any, Final

from inference.batches.models import BatchState
from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.formats.columns import USUAL_NAMES
from tenants.datasets.formats.lines import Source, read_lines
from tenants.datasets.formats.normalization import column_key
from tenants.datasets.formats.readers import head_lines
from tenants.datasets.formats.rows import ColumnMapping
from tenants.datasets.formats.table import read_table, table_columns, table_delimiter
from tenants.datasets.models import Task
from versiontree.tree.resolution import ResolvedModel

TABLE_SUFFIXES: Final = frozenset({".csv", ".tsv"})
TEXT_SUFFIX: Final = ".txt"
INPUT: Final = "input"
"""Means the first field of an input, whatever the model calls it."""
FAULT: Final = "fault"
"""The key of a line whose row cannot be read."""
ANSWER_COLUMNS: Final = ("answer", "confidence", "error")
"""They follow the columns of the table, under other names if it has such columns."""
LABEL_SEPARATOR: Final = "|"
MAX_LISTED: Final = 20
NO_COLUMN: Final = ColumnMapping({"": "\0"})
"""It is in no header, so that the delimiter is found without it."""
FIELD_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "text": ("text", *USUAL_NAMES["text"]),
    "text_pair": ("text_pair", *USUAL_NAMES["text_pair"]),
    "question": ("question", "query"),
    "context": ("context", *USUAL_NAMES["context"]),
    "prompt": ("prompt", *USUAL_NAMES["prompt"], "text", *USUAL_NAMES["text"]),
}
"""What files often call the column of a field of an input, the likeliest first."""


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row: its cells, and the fields of its input. ``fault`` says why it cannot be read; then it has one
    cell with its content."""

    cells: Sequence[str]
    fields: Mapping[str, str]
    fault: str = ""


def input_fields(model: ResolvedModel) -> tuple[str, ...]:
    """The fields of an input of the model, each of which is a column of a table."""
    if model.is_generative:
        return ("prompt",)
    if model.task == Task.QUESTION_ANSWERING:
        return ("question", "context")
    return ("text", "text_pair") if model.pairs else ("text",)


def is_table(source: Source) -> bool:
    """Whether a file has rows of a table, by its name, or plain texts instead of JSON lines."""
    suffix = Path(source.name).suffix.lower()
    if suffix != TEXT_SUFFIX:
        return suffix in TABLE_SUFFIXES
    first = next(iter(head_lines(source)), "")
    return not first.lstrip().startswith(('"', "{"))


def check_table(source: Source, model: ResolvedModel, columns: Mapping[str, str]) -> dict[str, str]:
    """The column of each field of the model's inputs: those given, others by their usual names. Of plain text
    the only field has no column: "".

    Raises ``missing_column`` if a field has none, ``invalid_field`` for a field that the model does not read,
    ``empty_file`` without rows, and what the first row raises.
    """
    fields = input_fields(model)
    columns = {fields[0] if field == INPUT else field: column for field, column in columns.items()}
    if unknown := columns.keys() - set(fields):
        message = f"{model.model_name} does not read {sorted(unknown)[0]!r}. It reads {' and '.join(fields)}."
        raise HmiError(ErrorCode.INVALID_FIELD, message, param="columns")
    is_text = not columns and Path(source.name).suffix.lower() == TEXT_SUFFIX and len(fields) == 1
    found = {fields[0]: ""} if is_text else _find_columns(source, fields, columns)
    if next(table_rows(source, found), None) is None:
        raise HmiError(ErrorCode.EMPTY_FILE, "The file has no rows.", param="file")
    return found


def table_header(source: Source, columns: Mapping[str, str]) -> list[str]:
    """The names of the table's columns."""
    return [*columns] if _is_plain(columns) else [*table_columns(source, _mapping(columns))]


def table_rows(source: Source, columns: Mapping[str, str]) -> Iterator[TableRow]:
    """The rows in order. Raises the typed error of a file that is no table from some place on."""
    if _is_plain(columns):
        (field,) = columns
        for line in read_lines(source):
            if line.text.strip():
                yield TableRow([line.text], {field: line.text})
        return
    header = table_header(source, columns)
    places = {column_key(name): name for name in header}
    names = {field: places[column_key(column)] for field, column in columns.items()}
    faults: list[TableRow] = []

    def keep(error: HmiError, _row: int, content: object) -> None:
        faults.append(TableRow([str(content)], {}, error.message))

    for row in read_table(source, ColumnMapping({name: name for name in header}), keep):
        yield from faults
        faults.clear()
        yield TableRow(
            [row.fields[name] for name in header], {field: row.fields[name] for field, name in names.items()}
        )
    yield from faults


def row_lines(rows: Iterable[TableRow]) -> Iterator[bytes]:
    """The line of each row, as `RowLineFormat` parses it."""
    for row in rows:
        value = {FAULT: row.fault} if row.fault else dict(row.fields)
        yield json.dumps(value, ensure_ascii=True).encode() + b"\n"


def answer_columns(header: Sequence[str]) -> list[str]:
    """The columns of a table with answers."""
    taken, added = set(header), []
    for name in ANSWER_COLUMNS:
        numbered = (f"{name}_{number}" for number in count(2))
        added.append(next(one for one in chain([name], numbered) if one not in taken))
    return [*header, *added]


def answer_rows(
    rows: Iterable[TableRow], width: int, outputs: Iterable[Iterable[bytes]], state: str
) -> Iterator[list[object]]:
    """The ``width`` cells of each row, and its answer, confidence and error. ``outputs``: the lines of the
    output files of a batch that ended in this state."""
    unanswered = f"Not answered: the batch is {BatchState(state).label.lower()}."
    found = heapq.merge(*(map(json.loads, lines) for lines in outputs), key=lambda one: int(one["line"]))
    following = next(found, None)
    for number, row in enumerate(rows, start=1):
        cells = [*islice(chain(row.cells, [""] * width), width)]
        if following is None or following["line"] != number:
            yield [*cells, "", "", unanswered]
            continue
        yield [*cells, *_answer_cells(following)]
        following = next(found, None)


def _answer_cells(line: Mapping[str, Any]) -> tuple[object, object, str]:
    if "error" in line:
        return "", "", str(line["error"]["message"])
    result = line["result"]
    return _answer(result), result.get("confidence", result.get("score", "")), ""


def _answer(result: Mapping[str, Any]) -> object:
    if choices := result.get("choices"):
        return choices[0].get("text") or (choices[0].get("message") or {}).get("content") or ""
    if "labels" in result:
        return LABEL_SEPARATOR.join(result["labels"])
    for name in ("label", "value", "answer"):
        if name in result:
            return result[name]
    return json.dumps(result.get("spans", result.get("embedding")), ensure_ascii=False)


def _is_plain(columns: Mapping[str, str]) -> bool:
    return "" in columns.values()


def _mapping(columns: Mapping[str, str]) -> ColumnMapping:
    """A mapping by which the delimiter is found."""
    return ColumnMapping({column: column for column in columns.values()})


def _find_columns(source: Source, fields: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    if fields[0] in given:
        header = [*table_columns(source, _mapping(given))]
    else:
        lines = head_lines(source)
        usual = (ColumnMapping({"": name}) for name in FIELD_NAMES[fields[0]])
        fitting = (one for one in usual if table_delimiter(lines[:1], one) is not None)
        header = [*table_columns(source, next(fitting, NO_COLUMN))]
    by_key = {column_key(name): name for name in reversed(header) if name}
    found: dict[str, str] = {}
    for field in fields:
        wanted = (given[field],) if field in given else FIELD_NAMES[field]
        names = [by_key[key] for key in map(column_key, wanted) if key in by_key]
        if not names and len(fields) == len(header) == 1 and not given:
            names = [*by_key.values()]
        if free := [name for name in names if name not in found.values()]:
            found[field] = free[0]
    if missing := [field for field in fields if field not in found]:
        listed = [name for name in header if name][:MAX_LISTED]
        asked = [given[field] for field in missing if field in given]
        problem = f"There is no column {asked[0]!r}." if asked else f"Choose the column for {missing[0]}."
        raise HmiError(
            ErrorCode.MISSING_COLUMN,
            f"{problem} The file has: {', '.join(listed)}.",
            param="columns",
            details={"fields": [*fields], "missing": missing, "found": listed},
        )
    return found
