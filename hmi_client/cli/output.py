"""Printing: results to stdout as tables or JSON, everything else to stderr."""

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

PIPE_WIDTH = 240
MAX_CELL_LENGTH = 60
CONTROLS = dict.fromkeys(code for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t")
"""What a terminal may take for commands: C0 and C1 but newline and tab, and DEL."""
LINE_BREAKS = {ord(sign): f"\\u{ord(sign):04x}" for sign in "\x85\u2028\u2029"}
"""What JSON may have as it is, and many programs take for the end of a line."""
stderr = Console(stderr=True)

_json_requested: ContextVar[bool] = ContextVar("json_requested", default=False)


def _set_json_requested(requested: bool) -> bool:
    _json_requested.set(requested)
    return requested


AsJson = Annotated[
    bool,
    typer.Option(
        "--json", help="Print JSON instead of a table.", callback=_set_json_requested, is_eager=True
    ),
]


def json_requested() -> bool:
    """Whether the command was called with --json."""
    return _json_requested.get()


def print_json(value: Any) -> None:
    """Print one line of JSON to stdout."""
    line = json.dumps(_serializable(value), ensure_ascii=False).translate(LINE_BREAKS)
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def write_text(text: str) -> None:
    """Write what a model wrote to stdout, at once and as it is, to a terminal without control characters."""
    sys.stdout.write(text.translate(CONTROLS) if sys.stdout.isatty() else text)
    sys.stdout.flush()


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table to stdout, as wide as the terminal or PIPE_WIDTH."""
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else PIPE_WIDTH)
    table = Table(box=None, pad_edge=False, header_style="bold", show_header=any(columns))
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(escape(_cell(value)) for value in row))
    console.print(table)


def shortened(text: str) -> str:
    """The beginning of a text on one line, for a cell."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_CELL_LENGTH else f"{line[: MAX_CELL_LENGTH - 1]}…"


def print_note(text: str) -> None:
    """Print a sentence to stderr."""
    print_markup(escape(text))


def print_markup(text: str) -> None:
    """Print rich's markup to stderr. Only a terminal has a width at which lines are wrapped."""
    stderr.print(text, highlight=False, soft_wrap=not stderr.is_terminal)


def _serializable(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, dict):
        return {name: _serializable(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_serializable(item) for item in value]
    return value


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)
