"""`hmi data show`, `download` and `edit`: the rows of a dataset."""

import json
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from hmi_client.cli.hints import Hint, hints
from hmi_client.cli.lookup import dataset_id
from hmi_client.cli.output import AsJson, print_json, print_note, print_table, shortened
from hmi_client.cli.profiles import client_of
from hmi_client.cli.text_input import empty_input, read_lines
from hmi_client.errors import HmiError
from hmi_client.operations.files import DownloadType
from hmi_client.responses import DatasetRow, Json

Name = Annotated[str, typer.Argument(help="The dataset's id or name.")]
Split = Literal["train", "dev", "test"]
SplitName = Annotated[Split, typer.Option(help="The split.")]
HINTS: Final[dict[str, Hint]] = {
    "changes": "List rows with their numbers: hmi data show DATASET --split SPLIT",
    "name": "Choose another name with --name.",
}


def show(
    context: typer.Context,
    dataset: Name,
    split: SplitName = "train",
    label: Annotated[str, typer.Option(help="Only rows with this label, or with a span of this kind.")] = "",
    search: Annotated[str, typer.Option(help="Only rows that have all of these words.")] = "",
    limit: Annotated[int, typer.Option(min=1, help="How many rows to list.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List the rows of a dataset with their numbers."""
    with client_of(context) as client:
        found = client.get_dataset(dataset_id(client, dataset))
        rows = list(islice(client.list_rows(found.id, split=split, label=label, search=search), limit))
    if as_json:
        print_json({"dataset": found.id, "name": found.name, "split": split, "rows": rows})
        return
    counts = ", ".join(f"{each.split} {each.rows:,}" for each in found.splits)
    print_note(f"Dataset {found.id} ({found.name}, {found.task}). Rows: {counts}.")
    columns = list(rows[0].fields) if rows else []
    print_table(("row", *columns), [(row.row, *_cells(row, columns)) for row in rows])


def download(
    context: typer.Context,
    dataset: Name,
    split: Annotated[
        Split | None, typer.Option(help="Only this split. Default: each to its own file.")
    ] = None,
    type: Annotated[DownloadType, typer.Option(help="The format.")] = "csv",  # noqa: A002 - the option's name
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", dir_okay=False, help="The file, with --split. Default: NAME-SPLIT.TYPE."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that exist.")] = False,
    as_json: AsJson = False,
) -> None:
    """Download a dataset. The files can be uploaded again."""
    if out and split is None:
        raise typer.BadParameter("Choose the split of this file with --split.", param_hint="--out")
    with client_of(context) as client:
        found = client.get_dataset(dataset_id(client, dataset))
        stem = "".join(sign if sign.isalnum() or sign in "-_. " else "_" for sign in found.name)
        names = [each.split for each in found.splits if split in (None, each.split)]
        files = {name: out or Path(f"{stem}-{name}.{type}") for name in names}
        for file in files.values():
            if file.exists() and not overwrite:
                message = f"{file} exists. Choose another file, or replace it with --overwrite."
                raise typer.BadParameter(message, param_hint="--out")
        for name, file in files.items():
            client.download_split(found.id, name, file, type=type)
    if as_json:
        print_json({"dataset": found.id, "files": {name: str(file) for name, file in files.items()}})
    else:
        for name, file in files.items():
            print_note(f"{name}: {file}")


def edit(
    context: typer.Context,
    dataset: Name,
    split: SplitName = "train",
    change: Annotated[
        list[str] | None,
        typer.Option("--set", help="Change a field: 12:label=refund changes that of row 12. Repeatable."),
    ] = None,
    remove: Annotated[
        list[int] | None,
        typer.Option("--remove", min=1, help="Leave out the row of this number. Repeatable."),
    ] = None,
    add: Annotated[
        list[str] | None,
        typer.Option(
            "--add", help='Add a row as JSON, such as {"text": "Hi", "label": "refund"}. Repeatable.'
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--changes", help="Read changes from JSON lines: objects with split, row and fields; - is stdin."
        ),
    ] = None,
    name: Annotated[
        str, typer.Option(help="The new dataset's name. Default: the next free one, such as tickets-2.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Change rows of a dataset, which makes a new dataset. `hmi data show` has the numbers of the rows."""
    changes = [*_field_changes(split, change or []), *({"split": split, "row": row} for row in remove or [])]
    changes += [{"split": split, "fields": _object(text, "--add")} for text in add or []]
    if file:
        listed = [_object(line, "--changes") for line in read_lines(file) if line.strip()]
        if not listed:
            raise empty_input(file)
        changes += listed
    if not changes:
        raise typer.BadParameter("Give changes with --set, --remove, --add or --changes.")
    with client_of(context) as client, hints(HINTS):
        made = client.edit_dataset(dataset_id(client, dataset), changes, name=name)
    if as_json:
        print_json(made)
        return
    edited = made.report.get("edited", {})
    counts = ", ".join(
        f"{edited[what]:,} {what}" for what in ("changed", "removed", "added") if edited.get(what)
    )
    print_note(f"Dataset {made.id} ({made.name}) is stored. Rows: {counts}.")
    print_note(f"Next: hmi train NAME --data {made.id}")


def _field_changes(split: str, given: list[str]) -> list[Json]:
    """A change for each row that is named. A value that begins like a JSON list or object is JSON."""
    by_row: dict[int, dict[str, Any]] = {}
    for one in given:
        number, _, assignment = one.partition(":")
        name, sign, value = assignment.partition("=")
        if not (number.isdecimal() and name and sign):
            raise typer.BadParameter(f"{one!r} is not of the form 12:label=refund.", param_hint="--set")
        try:
            parsed = json.loads(value) if value.startswith(("[", "{")) else value
        except ValueError:
            parsed = value
        by_row.setdefault(int(number), {})[name] = parsed
    return [{"split": split, "row": row, "fields": fields} for row, fields in by_row.items()]


def _object(text: str, option: str) -> Json:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise HmiError(f"{option}: {shortened(text)} is not JSON.") from error
    if not isinstance(value, dict):
        raise HmiError(f"{option}: {shortened(text)} is not a JSON object.")
    return value


def _cells(row: DatasetRow, columns: list[str]) -> list[str]:
    values = (row.fields.get(column, "") for column in columns)
    return [
        shortened(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for value in values
    ]
