"""`hmi batches`: files of inputs that are answered when nothing else waits."""

from pathlib import Path
from typing import Annotated

import typer

from hmi_client.cli.output import AsJson, say, show_json, show_table
from hmi_client.cli.progress import BatchBar, FileBars
from hmi_client.cli.session import client_of
from hmi_client.client import Client
from hmi_client.errors import JobEnded
from hmi_client.responses import Batch

app = typer.Typer(no_args_is_help=True, help="Many inputs at once, answered when nothing else waits.")
BatchId = Annotated[str, typer.Argument(help="The batch's id.")]
Out = Annotated[
    Path | None, typer.Option(dir_okay=False, help="Where the answers go; INPUT-results.jsonl if not given.")
]
Errors = Annotated[
    Path | None, typer.Option(dir_okay=False, help="Where lines without one go; INPUT-errors.jsonl.")
]


@app.command()
def run(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="model, tenant/model, with @alias or :version.")],
    file: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, readable=True, help="Inputs as JSON lines.")
    ],
    out: Out = None,
    errors: Errors = None,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Only begin it.")] = False,
    as_json: AsJson = False,
) -> None:
    """Send a file of inputs, wait for the answers and fetch them; exit code 1 if it does not complete. Each
    line is a text or an object such as {text, text_pair}; an `id` in it comes back beside its answer."""
    with client_of(context) as client:
        with FileBars() as bars:
            batch = client.batch_create(model, file, on_progress=bars.told)
        if no_wait:
            say(f"The batch {batch.id} is {batch.state}. Fetch it: hmi batches fetch {batch.id}")
        else:
            batch = _followed(client, batch)
            _fetch(client, batch, file.parent / file.stem, out, errors)
    _show(batch, as_json)
    if not no_wait:
        _check(batch)


@app.command("list")
def show(
    context: typer.Context,
    state: Annotated[
        str | None, typer.Option(help="waiting, running, completed, failed, cancelled or expired.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List batches, newest first."""
    with client_of(context) as client:
        batches = list(client.batches(state))
    if as_json:
        show_json(batches)
        return
    show_table(
        ("batch", "model", "file", "state", "lines", "failed", "created"),
        [
            (one.id, one.model, one.filename, one.state, one.lines, one.failed, one.created_at[:16])
            for one in batches
        ],
    )


@app.command()
def fetch(
    context: typer.Context,
    batch: BatchId,
    out: Out = None,
    errors: Errors = None,
    as_json: AsJson = False,
) -> None:
    """Wait until a batch has ended, and fetch what it answered."""
    with client_of(context) as client:
        ended = _followed(client, client.batch(batch))
        _fetch(client, ended, Path(Path(ended.filename).stem), out, errors)
    _show(ended, as_json)
    _check(ended)


@app.command()
def cancel(context: typer.Context, batch: BatchId, as_json: AsJson = False) -> None:
    """End a batch; what is answered by then can be fetched."""
    with client_of(context) as client:
        _show(client.batch_cancel(batch), as_json)


@app.command()
def delete(
    context: typer.Context,
    batch: BatchId,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete a batch that has ended, with what it answered."""
    if not yes:
        typer.confirm(f"Delete the batch {batch} with its answers?", abort=True, err=True)
    with client_of(context) as client:
        client.batch_delete(batch)
    say(f"The batch {batch} is deleted.")


def _followed(client: Client, batch: Batch) -> Batch:
    with BatchBar(batch) as bar:
        for batch in client.batch_watch(batch.id):  # noqa: B020 - the last one is the answer
            bar.told(batch)
    return batch


def _fetch(client: Client, batch: Batch, stem: Path, out: Path | None, errors: Path | None) -> None:
    if batch.results_bytes:
        client.batch_results(batch.id, out or stem.with_name(f"{stem.name}-results.jsonl"))
    if batch.errors_bytes:
        client.batch_errors(batch.id, errors or stem.with_name(f"{stem.name}-errors.jsonl"))


def _check(batch: Batch) -> None:
    if batch.state != "completed":
        told = batch.error or {}
        message = told.get("message", f"The batch is {batch.state}.")
        raise JobEnded(message, job=batch.id, code=told.get("code", batch.state))


def _show(batch: Batch, as_json: bool) -> None:
    if as_json:
        show_json(batch)
    else:
        say(f"The batch {batch.id} is {batch.state}: {batch.succeeded:,} answered, {batch.failed:,} not.")
