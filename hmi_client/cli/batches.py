"""`hmi batches`: files of inputs that are answered at low priority."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal, Self

import typer

from hmi_client.cli.output import AsJson, print_json, print_note, print_table
from hmi_client.cli.profiles import client_of
from hmi_client.cli.progress import BatchBar, FileBars
from hmi_client.client import Client
from hmi_client.errors import JobFailed
from hmi_client.responses import Batch

app = typer.Typer(
    no_args_is_help=True, help="Run models on files of JSON lines at low priority, and manage batches."
)
BatchId = Annotated[str, typer.Argument(help="The batch's id.")]
Out = Annotated[
    Path | None, typer.Option(dir_okay=False, help="File for the answers. Default: INPUT-results.jsonl.")
]
Errors = Annotated[
    Path | None,
    typer.Option(dir_okay=False, help="File for the lines that failed. Default: INPUT-errors.jsonl."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace these files if they exist.")]
State = Literal["waiting", "running", "completed", "failed", "cancelled", "expired"]


@dataclass(frozen=True, slots=True)
class OutputFiles:
    """Where the answers and the failed lines of a batch go. With ``overwrite`` these files may exist."""

    results: Path
    errors: Path
    overwrite: bool

    @classmethod
    def of(cls, stem: Path, out: Path | None, errors: Path | None, *, overwrite: bool) -> Self:
        """By default beside the input, ``stem``. BadParameter if one exists."""
        results = out or stem.with_name(f"{stem.name}-results.jsonl")
        files = cls(results, errors or stem.with_name(f"{stem.name}-errors.jsonl"), overwrite)
        for option, file in (("--out", files.results), ("--errors", files.errors)):
            if file.exists() and not overwrite:
                message = f"{file} exists. Choose another file, or replace it with --overwrite."
                raise typer.BadParameter(message, param_hint=option)
        return files


@app.command()
def run(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="model or tenant/model, optionally with @alias or :version.")],
    file: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, readable=True, help="Inputs as JSON lines.")
    ],
    out: Out = None,
    errors: Errors = None,
    overwrite: Overwrite = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Start the batch and return.")] = False,
    as_json: AsJson = False,
) -> None:
    """Upload a file of inputs, wait for the answers and download them.

    Each line is a string or an object such as {text, text_pair}. An `id` in it is repeated in its answer. The
    exit code is 1 if the batch does not complete, or if lines failed.
    """
    files = OutputFiles.of(file.parent / file.stem, out, errors, overwrite=overwrite or no_wait)
    with client_of(context) as client:
        with FileBars() as bars:
            batch = client.create_batch(model, file, on_progress=bars.update)
        if no_wait:
            print_note(f"The batch {batch.id} is {batch.state}. Fetch it: hmi batches fetch {batch.id}")
            if as_json:
                print_json(batch)
            return
        batch = wait_for_batch(client, batch)
        _download(client, batch, files)
    _report(batch, files, as_json)


@app.command("list")
def list_batches(
    context: typer.Context,
    state: Annotated[State | None, typer.Option(help="Only batches in this state.")] = None,
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
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Wait for a batch and download its answers. The exit code is that of `run`."""
    with client_of(context) as client:
        found = client.get_batch(batch)
        files = OutputFiles.of(Path(Path(found.filename).stem), out, errors, overwrite=overwrite)
        ended = wait_for_batch(client, found)
        _download(client, ended, files)
    _report(ended, files, as_json)


@app.command()
def cancel(context: typer.Context, batch: BatchId, as_json: AsJson = False) -> None:
    """Cancel a batch. Its answers so far can be fetched."""
    with client_of(context) as client:
        cancelled = client.cancel_batch(batch)
    if as_json:
        print_json(cancelled)
    else:
        _print_counts(cancelled)


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


def wait_for_batch(client: Client, batch: Batch) -> Batch:
    """The batch once it is finished. Meanwhile a bar shows its progress."""
    with BatchBar(batch) as bar:
        for batch in client.watch_batch(batch.id):  # noqa: B020 - the last state is returned
            bar.update(batch)
    return batch


def _download(client: Client, batch: Batch, files: OutputFiles) -> None:
    if batch.results_bytes:
        client.download_batch_results(batch.id, files.results)
    if batch.errors_bytes:
        client.download_batch_errors(batch.id, files.errors)


def _report(batch: Batch, files: OutputFiles, as_json: bool) -> None:
    """Print the end of a batch and its files. JobFailed unless every line is answered."""
    results = str(files.results) if batch.results_bytes else None
    errors = str(files.errors) if batch.errors_bytes else None
    if as_json:
        print_json({**asdict(batch), "results_file": results, "errors_file": errors})
    else:
        _print_counts(batch)
        if results:
            print_note(f"Answers: {results}")
        if errors:
            print_note(f"Failed lines: {errors}")
    if batch.state != "completed":
        raise batch_failed(batch)
    if batch.failed:
        message = f"{batch.failed:,} of {batch.lines:,} lines failed. {errors} has the reasons."
        raise JobFailed(message, job=batch.id, code="lines_failed")


def batch_failed(batch: Batch) -> JobFailed:
    """The error of a batch that did not complete."""
    error = batch.error or {}
    line = f"Line {error['line']}: " if error.get("line") else ""
    message = error.get("message", f"The batch is {batch.state}.")
    return JobFailed(f"{line}{message}", job=batch.id, code=error.get("code", batch.state))


def _print_counts(batch: Batch) -> None:
    print_note(
        f"The batch {batch.id} is {batch.state}: {batch.succeeded:,} answered, {batch.failed:,} failed."
    )
