"""`hmi requests`: the request log."""

from enum import StrEnum
from itertools import islice
from typing import Annotated

import typer

from hmi_client.cli.output import AsJson, print_json, print_table
from hmi_client.cli.profiles import client_of
from hmi_client.responses import LoggedRequest


class Status(StrEnum):
    """How a request ended."""

    ANSWERED = "answered"
    REFUSED = "refused"
    FAILED = "failed"


COLUMNS = ("time", "request", "model", "status", "latency", "level", "tokens", "message")


def requests(
    context: typer.Context,
    model: Annotated[str | None, typer.Option(help="Only requests to this model.")] = None,
    status: Annotated[Status | None, typer.Option(help="How they ended.")] = None,
    code: Annotated[str | None, typer.Option(help="An error code, such as rate_limited.")] = None,
    key: Annotated[str | None, typer.Option(help="The prefix of an API key.")] = None,
    since: Annotated[str | None, typer.Option(help="A time in UTC, such as 2026-01-31T12:00.")] = None,
    until: Annotated[str | None, typer.Option(help="A time in UTC.")] = None,
    request_id: Annotated[str | None, typer.Option("--id", help="A request id, or its beginning.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many requests to list.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List requests of the last days, newest first."""
    with client_of(context) as client:
        found = client.list_requests(
            model=model,
            status=status,
            code=code,
            key=key,
            since=since,
            until=until,
            request_id=request_id,
        )
        rows = list(islice(found, limit))
    if as_json:
        print_json(rows)
    else:
        print_table(COLUMNS, map(_row, rows))


def _row(request: LoggedRequest) -> tuple[object, ...]:
    version = "" if request.version is None else f":{request.version}"
    return (
        request.at[:19].replace("T", " "),
        request.request_id,
        request.reference if request.version is None else f"{request.model}{version}",
        f"{request.outcome}: {request.error_code}" if request.error_code else request.outcome,
        "" if request.latency_ms is None else f"{request.latency_ms:.1f} ms",
        request.level,
        request.tokens,
        request.message,
    )
