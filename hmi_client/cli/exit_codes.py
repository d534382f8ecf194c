"""How the command ends: an exit code, and a sentence on stderr."""

import json
import sys

from rich.markup import escape

from hmi_client.cli.lookup import NameNotFound
from hmi_client.cli.output import json_is_wanted, notes
from hmi_client.errors import (
    ApiError,
    AuthenticationFailed,
    Conflict,
    ConnectionFailed,
    FilesRefused,
    Gone,
    HmiError,
    JobEnded,
    LimitReached,
    NotFound,
    PermissionRefused,
    ServerFailed,
    TimedOut,
    Unavailable,
)

FAILED = 1
USAGE = 2
INTERRUPTED = 130
ENDINGS: tuple[tuple[int, tuple[type[HmiError], ...]], ...] = (
    (3, (AuthenticationFailed, PermissionRefused)),
    (4, (NotFound, Gone, NameNotFound)),
    (5, (Conflict,)),
    (6, (LimitReached,)),
    (7, (ConnectionFailed, Unavailable, ServerFailed, TimedOut)),
)
FAULTS_SHOWN = 20


def exit_code(error: HmiError) -> int:
    """The exit code."""
    return next((code for code, kinds in ENDINGS if isinstance(error, kinds)), FAILED)


def say_error(error: HmiError) -> None:
    """On stderr: as the API's envelope if JSON was asked for, else in words."""
    if json_is_wanted():
        print(json.dumps(_envelope(error)), file=sys.stderr)  # noqa: T201 - what the command is for
        return
    message = error.message if isinstance(error, ApiError) else str(error)
    notes.print(f"[bold red]Error:[/] {escape(message)}", highlight=False)
    match error:
        case ApiError():
            where = f" at {error.param}" if error.param else ""
            request = f", request {error.request_id}" if error.request_id else ""
            notes.print(f"[dim]{escape(f'{error.code}{where}{request}')}[/]", highlight=False)
        case FilesRefused():
            _say_faults(error)
        case JobEnded():
            notes.print(f"[dim]{escape(error.code)}, job {error.job}[/]", highlight=False)


def _say_faults(error: FilesRefused) -> None:
    for fault in error.row_errors[:FAULTS_SHOWN]:
        where = f"{fault.get('file', '')}:{fault.get('line') or fault.get('row') or '?'}"
        notes.print(f"  {escape(where)}  {escape(str(fault.get('reason', '')))}", highlight=False)
    if len(error.row_errors) > FAULTS_SHOWN:
        notes.print(f"  and {len(error.row_errors) - FAULTS_SHOWN:,} more (all with --json)")


def _envelope(error: HmiError) -> dict[str, object]:
    match error:
        case ApiError():
            return dict(error.to_json())
        case FilesRefused():
            return {"error": {**error.error, "row_errors": error.row_errors}}
        case JobEnded():
            return {"error": {"type": "job", "code": error.code, "message": str(error), "job": error.job}}
    kind = "connection" if isinstance(error, ConnectionFailed) else "client"
    return {"error": {"type": kind, "code": kind, "message": str(error), "param": None}}
