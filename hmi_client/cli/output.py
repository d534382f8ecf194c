"""What the command prints: tables for people, JSON for programs. Results go to stdout, all else to stderr."""

import json
import sys
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from dataclasses import asdict, is_dataclass
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

WIDE = 240
notes = Console(stderr=True)
"""Progress, hints and errors."""

_json_wanted: ContextVar[bool] = ContextVar("json_wanted", default=False)


def _want_json(wanted: bool) -> bool:
    _json_wanted.set(wanted)
    return wanted


AsJson = Annotated[
    bool, typer.Option("--json", help="Print JSON instead of a table.", callback=_want_json, is_eager=True)
]


def json_is_wanted() -> bool:
    """Whether the running command was called with --json."""
    return _json_wanted.get()


def show_json(thing: Any) -> None:
    """Anything of the client's, as one line of JSON."""
    line = json.dumps(_plain(thing), ensure_ascii=False)
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table as wide as the terminal, or as WIDE where stdout is none."""
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else WIDE)
    table = Table(box=None, pad_edge=False, header_style="bold", show_header=any(columns))
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(escape(_cell(value)) for value in row))
    console.print(table)


def say(text: str) -> None:
    """A sentence on stderr."""
    notes.print(escape(text), highlight=False)


def _plain(thing: Any) -> Any:
    if is_dataclass(thing) and not isinstance(thing, type):
        return asdict(thing)
    if isinstance(thing, dict):
        return {name: _plain(value) for name, value in thing.items()}
    if isinstance(thing, list | tuple):
        return [_plain(item) for item in thing]
    return thing


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)
