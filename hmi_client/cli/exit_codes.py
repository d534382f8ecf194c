"""Exit codes and error messages."""

import json
import sys

from rich.markup import escape

from hmi_client.cli.lookup import NameNotFound
from hmi_client.cli.output import json_requested, print_markup, print_note
from hmi_client.errors import (
    ApiError,
    AuthenticationFailed,
    Conflict,
    ConnectionFailed,
    FilesRejected,
    Gone,
    HmiError,
    JobFailed,
    LimitExceeded,
    NotFound,
    PermissionDenied,
    ServerError,
    TimedOut,
    Unavailable,
)

FAILED = 1
USAGE = 2
INTERRUPTED = 130
EXIT_CODES: tuple[tuple[int, tuple[type[HmiError], ...]], ...] = (
    (3, (AuthenticationFailed, PermissionDenied)),
    (4, (NotFound, Gone, NameNotFound)),
    (5, (Conflict,)),
    (6, (LimitExceeded,)),
    (7, (ConnectionFailed, Unavailable, ServerError, TimedOut)),
)
MAX_ROW_ERRORS_SHOWN = 20


def exit_code(error: HmiError) -> int:
    """The exit code for an error."""
    return next((code for code, kinds in EXIT_CODES if isinstance(error, kinds)), FAILED)


def print_error(error: HmiError) -> None:
    """Print an error to stderr: as JSON in the API's format with --json, else as text."""
    if json_requested():
        print(json.dumps(_envelope(error)), file=sys.stderr)  # noqa: T201 - the command's output
        return
    message = error.message if isinstance(error, ApiError) else str(error)
    print_markup(f"[bold red]Error:[/] {escape(message)}")
    match error:
        case ApiError():
            where = f" at {error.param}" if error.param else ""
            request = f", request {error.request_id}" if error.request_id else ""
            print_markup(f"[dim]{escape(f'{error.code}{where}{request}')}[/]")
        case FilesRejected():
            _print_row_errors(error)
        case JobFailed():
            print_markup(f"[dim]{escape(error.code)}, {error.job}[/]")
    for hint in getattr(error, "__notes__", ()):
        print_note(hint)


def _print_row_errors(error: FilesRejected) -> None:
    for fault in error.row_errors[:MAX_ROW_ERRORS_SHOWN]:
        where = f"{fault.get('file', '')}:{fault.get('line') or fault.get('row') or '?'}"
        print_markup(f"  {escape(where)}  {escape(str(fault.get('reason', '')))}")
    if len(error.row_errors) > MAX_ROW_ERRORS_SHOWN:
        print_note(f"  and {len(error.row_errors) - MAX_ROW_ERRORS_SHOWN:,} more (--json lists all)")


def _envelope(error: HmiError) -> dict[str, object]:
    match error:
        case ApiError():
            return dict(error.to_json())
        case FilesRejected():
            return {"error": {**error.error, "row_errors": error.row_errors}}
        case JobFailed():
            return {"error": {"type": "job", "code": error.code, "message": str(error), "job": error.job}}
    kind = "connection" if isinstance(error, ConnectionFailed) else "client"
    return {"error": {"type": kind, "code": kind, "message": str(error), "param": None}}
