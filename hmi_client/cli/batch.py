"""`hmi batch`: a table or a file of texts, and the same rows with their answers."""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer

from hmi_client.cli.batches import batch_failed, wait_for_batch
from hmi_client.cli.hints import Hint, hints
from hmi_client.cli.output import AsJson, print_json, print_note
from hmi_client.cli.profiles import client_of
from hmi_client.cli.progress import FileBars
from hmi_client.client import Client
from hmi_client.errors import ApiError, Gone, HmiError, JobFailed, NotFound
from hmi_client.operations.files import file_sha256
from hmi_client.responses import Batch

INPUT: Final = "input"
"""The first field of an input, whatever the model calls it."""
JSON_SUFFIXES: Final = frozenset({".json", ".jsonl", ".ndjson"})
HINTS: Final[dict[str, Hint]] = {"columns": "Choose the column with --column, such as --column message."}


def batch(
    context: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(
            exists=True,
            dir_okay=False,
            readable=True,
            help="A CSV or TSV file with a header, or a text per line.",
        ),
    ],
    model: Annotated[
        str,
        typer.Option(
            help="model or tenant/model, optionally with @alias or :version. Default: the only one."
        ),
    ] = "",
    column: Annotated[
        list[str] | None,
        typer.Option(
            help="The column with the texts, or for inputs with two texts FIELD=COLUMN, such as "
            "question=subject. Repeatable. Default: the column with a usual name, such as text or message."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", dir_okay=False, help="The CSV file. Default: INPUT-answers.csv."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")] = False,
    as_json: AsJson = False,
) -> None:
    """Answer each row of a CSV file, and save the rows with the columns answer, confidence and error.

    If it is interrupted, run the same command again to go on. The exit code is 1 if rows failed.
    """
    if file.suffix.lower() in JSON_SUFFIXES and not column:
        raise typer.BadParameter("For JSON lines use: hmi batches run MODEL FILE", param_hint="FILE")
    out = out or file.with_name(f"{file.stem}-answers.csv")
    if out.exists() and not overwrite:
        message = f"{out} exists. Choose another file, or replace it with --overwrite."
        raise typer.BadParameter(message, param_hint="--out")
    columns = _columns(column or [])
    with client_of(context) as client, hints(HINTS):
        begun = BegunBatch(file, model or _only_model(client), columns, out)
        made = begun.find(client) or begun.start(client)
        try:
            made = wait_for_batch(client, made)
        except KeyboardInterrupt:
            print_note("The batch goes on. Run the same command again to get its answers.")
            raise
        if made.results_bytes:
            client.download_batch_results(made.id, out)
        begun.forget()
    _report(made, out, as_json)


class BegunBatch:
    """A batch of this file that an earlier run of the command may have begun. A small file beside ``out``
    remembers its id until the answers are there."""

    def __init__(self, file: Path, model: str, columns: dict[str, str], out: Path) -> None:
        self._file, self._model, self._columns = file, model, columns
        self._note = out.with_name(f"{out.name}.batch")
        asked = json.dumps([file_sha256(file), model, columns])
        self._fingerprint = hashlib.sha256(asked.encode(errors="replace")).hexdigest()

    def find(self, client: Client) -> Batch | None:
        """The batch, if it may still have answers."""
        try:
            noted = json.loads(self._note.read_text(encoding="utf-8"))
            if noted["of"] != self._fingerprint:
                return None
            found = client.get_batch(str(noted["batch"]))
        except (OSError, ValueError, KeyError, TypeError, NotFound, Gone):
            return None
        return found if found.state in ("waiting", "running", "completed") else None

    def start(self, client: Client) -> Batch:
        """Upload the file, and create its batch."""
        with FileBars() as bars:
            made = client.create_batch(
                self._model, self._file, columns=self._columns or None, on_progress=bars.update
            )
        note = {"batch": made.id, "of": self._fingerprint}
        self._note.write_text(json.dumps(note), encoding="utf-8")
        return made

    def forget(self) -> None:
        """Delete the note: the next run begins anew."""
        self._note.unlink(missing_ok=True)


def _columns(given: list[str]) -> dict[str, str]:
    pairs = [one.partition("=") if "=" in one else (INPUT, "=", one) for one in given]
    columns = {field: column for field, _, column in pairs}
    if not all(field and column for field, column in columns.items()) or len(columns) < len(pairs):
        raise typer.BadParameter("Give a column, or FIELD=COLUMN once for each field.", param_hint="--column")
    return columns


def _only_model(client: Client) -> str:
    try:
        names = [model.name for model in client.list_models()]
    except ApiError as error:
        error.add_note("Name the model with --model.")
        raise
    if len(names) != 1:
        listed = ", ".join(names[:20]) or "none yet"
        raise HmiError(f"Choose a model with --model. Your models: {listed}.")
    return names[0]


def _report(made: Batch, out: Path, as_json: bool) -> None:
    saved = str(out) if made.results_bytes else None
    if as_json:
        print_json({**asdict(made), "answers_file": saved})
    else:
        print_note(f"{made.succeeded:,} rows answered, {made.failed:,} failed.")
        if saved:
            print_note(f"Answers: {saved}")
    if made.state != "completed":
        raise batch_failed(made)
    if made.failed:
        message = f"{made.failed:,} of {made.lines:,} rows failed. The column error has the reasons."
        raise JobFailed(message, job=made.id, code="lines_failed")
