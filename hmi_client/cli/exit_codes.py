"""Exit codes and error messages."""

import json
import sys

from rich.markup import escape

from hmi_client.cli.lookup import NameNotFound
from hmi_client.cli.output import json_requested, stderr
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
    stderr.print(f"[bold red]Error:[/] {escape(message)}", highlight=False)
    match error:
        case ApiError():
            where = f" at {error.param}" if error.param else ""
            request = f", request {error.request_id}" if error.request_id else ""
            stderr.print(f"[dim]{escape(f'{error.code}{where}{request}')}[/]", highlight=False)
        case FilesRejected():
            _print_row_errors(error)
        case JobFailed():
            stderr.print(f"[dim]{escape(error.code)}, job {error.job}[/]", highlight=False)


def _print_row_errors(error: FilesRejected) -> None:
    for fault in error.row_errors[:MAX_ROW_ERRORS_SHOWN]:
        where = f"{fault.get('file', '')}:{fault.get('line') or fault.get('row') or '?'}"
        stderr.print(f"  {escape(where)}  {escape(str(fault.get('reason', '')))}", highlight=False)
    if len(error.row_errors) > MAX_ROW_ERRORS_SHOWN:
        stderr.print(f"  and {len(error.row_errors) - MAX_ROW_ERRORS_SHOWN:,} more (--json lists all)")


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
