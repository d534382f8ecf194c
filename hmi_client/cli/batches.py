"""`hmi batches`: files of inputs that are answered at low priority."""

from pathlib import Path
from typing import Annotated

import typer

from hmi_client.cli.output import AsJson, print_json, print_note, print_table
from hmi_client.cli.profiles import client_of
from hmi_client.cli.progress import BatchBar, FileBars
from hmi_client.client import Client
from hmi_client.errors import JobFailed
from hmi_client.responses import Batch

app = typer.Typer(no_args_is_help=True, help="Run models on files of inputs at low priority.")
BatchId = Annotated[str, typer.Argument(help="The batch's id.")]
Out = Annotated[
    Path | None, typer.Option(dir_okay=False, help="File for the answers. Default: INPUT-results.jsonl.")
]
Errors = Annotated[
    Path | None,
    typer.Option(dir_okay=False, help="File for the lines that failed. Default: INPUT-errors.jsonl."),
]


@app.command()
def run(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="model or tenant/model, optionally with @alias or :version.")],
    file: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, readable=True, help="Inputs as JSON lines.")
    ],
    out: Out = None,
    errors: Errors = None,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Start the batch and return.")] = False,
    as_json: AsJson = False,
) -> None:
    """Upload a file of inputs, wait for the answers and download them.

    Each line is a string or an object such as {text, text_pair}. An `id` in it is repeated in its answer. The
    exit code is 1 if the batch does not complete.
    """
    with client_of(context) as client:
        with FileBars() as bars:
            batch = client.create_batch(model, file, on_progress=bars.update)
        if no_wait:
            print_note(f"The batch {batch.id} is {batch.state}. Fetch it: hmi batches fetch {batch.id}")
        else:
            batch = _wait(client, batch)
            _download(client, batch, file.parent / file.stem, out, errors)
    _print_batch(batch, as_json)
    if not no_wait:
        _raise_if_failed(batch)


@app.command("list")
def list_batches(
    context: typer.Context,
    state: Annotated[
        str | None, typer.Option(help="waiting, running, completed, failed, cancelled or expired.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List batches, newest first."""
    with client_of(context) as client:
        batches = list(client.list_batches(state))
    if as_json:
        print_json(batches)
        return
    print_table(
        ("batch", "model", "file", "state", "lines", "failed", "created"),
        [
            (
                batch.id,
                batch.model,
                batch.filename,
                batch.state,
                batch.lines,
                batch.failed,
                batch.created_at[:16],
            )
            for batch in batches
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
    """Wait for a batch and download its answers."""
    with client_of(context) as client:
        ended = _wait(client, client.get_batch(batch))
        _download(client, ended, Path(Path(ended.filename).stem), out, errors)
    _print_batch(ended, as_json)
    _raise_if_failed(ended)


@app.command()
def cancel(context: typer.Context, batch: BatchId, as_json: AsJson = False) -> None:
    """Cancel a batch. Its answers so far can be fetched."""
    with client_of(context) as client:
        _print_batch(client.cancel_batch(batch), as_json)


@app.command()
def delete(
    context: typer.Context,
    batch: BatchId,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete a finished batch with its answers."""
    if not yes:
        typer.confirm(f"Delete the batch {batch} with its answers?", abort=True, err=True)
    with client_of(context) as client:
        client.delete_batch(batch)
    print_note(f"The batch {batch} is deleted.")


def _wait(client: Client, batch: Batch) -> Batch:
    with BatchBar(batch) as bar:
        for batch in client.watch_batch(batch.id):  # noqa: B020 - the last state is returned
            bar.update(batch)
    return batch


def _download(client: Client, batch: Batch, stem: Path, out: Path | None, errors: Path | None) -> None:
    if batch.results_bytes:
        client.download_batch_results(batch.id, out or stem.with_name(f"{stem.name}-results.jsonl"))
    if batch.errors_bytes:
        client.download_batch_errors(batch.id, errors or stem.with_name(f"{stem.name}-errors.jsonl"))


def _raise_if_failed(batch: Batch) -> None:
    if batch.state != "completed":
        error = batch.error or {}
        message = error.get("message", f"The batch is {batch.state}.")
        raise JobFailed(message, job=batch.id, code=error.get("code", batch.state))


def _print_batch(batch: Batch, as_json: bool) -> None:
    if as_json:
        print_json(batch)
    else:
        print_note(
            f"The batch {batch.id} is {batch.state}: {batch.succeeded:,} answered, {batch.failed:,} failed."
        )
