"""`hmi data`: datasets and corpora."""

from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from hmi_client.cli import rows
from hmi_client.cli.hints import Hint, column_hint, hints
from hmi_client.cli.lookup import corpus_id, dataset_id
from hmi_client.cli.output import AsJson, print_json, print_note, print_table
from hmi_client.cli.profiles import client_of
from hmi_client.cli.progress import FileBars
from hmi_client.cli.report import print_report
from hmi_client.responses import Check, Corpus, Dataset

app = typer.Typer(
    no_args_is_help=True, help="Upload, list, show, edit, download and delete datasets and corpora."
)
app.command("show")(rows.show)
app.command("download")(rows.download)
app.command("edit")(rows.edit)
Task = Literal[
    "classification", "multilabel", "regression", "tagging", "question_answering", "generation", "chat"
]
HINTS: Final[dict[str, Hint]] = {
    "missing_column": column_hint,
    "leaking_splits": "To accept these rows, add --allow-leaks.",
    "malformed_row": "To leave out such rows, add --skip-invalid-rows.",
    "name": "Choose another name with --name.",
    "columns": "Map columns with --column, such as --column text=body.",
    "separator": "Choose the separator with --separator.",
}


@app.command()
def push(
    context: typer.Context,
    train: Annotated[
        Path,
        typer.Argument(exists=True, dir_okay=False, readable=True, help="The training rows, or the corpus."),
    ],
    name: Annotated[str, typer.Option(help="The name. Default: the file's name.")] = "",
    task: Annotated[Task | None, typer.Option(help="The task of the model.")] = None,
    corpus: Annotated[bool, typer.Option("--corpus", help="Upload a corpus: plain text.")] = False,
    dev: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, readable=True, help="The validation rows.")
    ] = None,
    test: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, readable=True, help="The test rows.")
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            help="Map a column: text=body reads the text from `body`. Repeatable. "
            "Default: columns with usual names."
        ),
    ] = None,
    separator: Annotated[str | None, typer.Option(help="The separator between the labels of a cell.")] = None,
    allow_leaks: Annotated[bool, typer.Option("--allow-leaks", help="Allow overlap between splits.")] = False,
    skip_invalid_rows: Annotated[
        bool, typer.Option("--skip-invalid-rows", help="Leave out invalid rows.")
    ] = False,
    check_only: Annotated[
        bool, typer.Option("--check-only", help="Check the files and print a report. Nothing is stored.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Upload files and create a dataset (--task) or a corpus (--corpus). Run it again to resume an upload."""
    if corpus is (task is not None):
        raise typer.BadParameter("Give --task for a dataset, or --corpus.")
    splits = {"train": train, "dev": dev, "test": test}
    files = {split: path for split, path in splits.items() if path is not None}
    name = name or train.stem
    with client_of(context) as client, FileBars() as bars, hints(HINTS):
        if task is None:
            check = client.push_corpus(train, name=name, check_only=check_only, on_progress=bars.update)
        else:
            check = client.push_dataset(
                files,
                task=task,
                name=name,
                columns=_columns(column or []),
                guess_columns=not column,
                separator=separator,
                allow_leaks=allow_leaks,
                skip_invalid_rows=skip_invalid_rows,
                check_only=check_only,
                on_progress=bars.update,
            )
    _print_check(check, as_json)


@app.command("list")
def list_data(
    context: typer.Context,
    corpora: Annotated[bool, typer.Option("--corpora", help="List corpora instead of datasets.")] = False,
    as_json: AsJson = False,
) -> None:
    """List datasets, or corpora."""
    with client_of(context) as client:
        if corpora:
            _print_corpora(list(client.list_corpora()), as_json)
        else:
            _print_datasets(list(client.list_datasets()), as_json)


@app.command()
def delete(
    context: typer.Context,
    data: Annotated[str, typer.Argument(help="The dataset's id or name.")],
    corpus: Annotated[bool, typer.Option("--corpus", help="Delete a corpus.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete a dataset or a corpus. Those that a version was trained on cannot be deleted."""
    kind = "corpus" if corpus else "dataset"
    if not yes:
        typer.confirm(f"Delete the {kind} {data}?", abort=True, err=True)
    with client_of(context) as client:
        if corpus:
            client.delete_corpus(corpus_id(client, data))
        else:
            client.delete_dataset(dataset_id(client, data))
    print_note(f"The {kind} {data} is deleted.")


def _print_corpora(corpora: list[Corpus], as_json: bool) -> None:
    if as_json:
        print_json(corpora)
        return
    print_table(
        ("id", "name", "rows", "words", "created"),
        [(corpus.id, corpus.name, corpus.rows, corpus.words, corpus.created_at[:16]) for corpus in corpora],
    )


def _print_datasets(datasets: list[Dataset], as_json: bool) -> None:
    if as_json:
        print_json(datasets)
        return
    print_table(
        ("id", "name", "task", "rows", "created"),
        [
            (each.id, each.name, each.task, sum(split.rows for split in each.splits), each.created_at[:16])
            for each in datasets
        ],
    )


def _columns(pairs: list[str]) -> dict[str, str]:
    for pair in pairs:
        if not all(pair.partition("=")):
            raise typer.BadParameter(f"{pair!r} is not of the form text=body.", param_hint="--column")
    return {name: column for name, _, column in (pair.partition("=") for pair in pairs)}


def _print_check(check: Check, as_json: bool) -> None:
    if check.columns and not as_json:
        print_note(f"Columns: {', '.join(f'{name}={column}' for name, column in check.columns.items())}")
    if as_json:
        print_json(check)
    elif check.dataset is not None:
        print_note(
            f"Dataset {check.dataset} ({check.name}) is stored. Next: hmi train NAME --data {check.dataset}"
        )
    elif check.corpus is not None:
        print_note(f"Corpus {check.corpus} ({check.name}) is stored.")
    else:
        print_report(check)
        print_note("The check passed. Nothing was stored.")
