"""`hmi data`: datasets and corpora."""

from pathlib import Path
from typing import Annotated

import typer

from hmi_client.cli.output import AsJson, say, show_json, show_table
from hmi_client.cli.progress import FileBars
from hmi_client.cli.session import client_of
from hmi_client.responses import Check

app = typer.Typer(no_args_is_help=True, help="Datasets to train on, and corpora for domains.")
File = typer.Option(exists=True, dir_okay=False, readable=True)


@app.command()
def push(
    context: typer.Context,
    train: Annotated[
        Path,
        typer.Argument(exists=True, dir_okay=False, readable=True, help="The rows to train on, or a corpus."),
    ],
    name: Annotated[str, typer.Option(help="Its name; that of the file if not given.")] = "",
    task: Annotated[
        str, typer.Option(help="classification, multilabel, regression, tagging or question_answering.")
    ] = "",
    corpus: Annotated[bool, typer.Option("--corpus", help="It is a corpus: plain text.")] = False,
    dev: Annotated[Path | None, File] = None,
    test: Annotated[Path | None, File] = None,
    column: Annotated[
        list[str] | None, typer.Option(help="text=body: the text is in the file's column `body`. Repeatable.")
    ] = None,
    separator: Annotated[str | None, typer.Option(help="What parts the labels of a cell.")] = None,
    allow_leaks: Annotated[
        bool, typer.Option("--allow-leaks", help="Take splits that share more rows than they should.")
    ] = False,
    check_only: Annotated[bool, typer.Option("--check-only", help="Check the files, keep nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Send files and make a dataset (--task) or a corpus (--corpus) of them. A push that broke off goes on
    where it was when it is run again."""
    if corpus == bool(task):
        raise typer.BadParameter("Give --task for a dataset, or --corpus.")
    splits = {"train": train, "dev": dev, "test": test}
    files = {split: path for split, path in splits.items() if path is not None}
    called = name or train.stem
    store = not check_only
    with client_of(context) as client, FileBars() as bars:
        if corpus:
            check = client.corpus_push(train, name=called, store=store, on_progress=bars.told)
        else:
            check = client.dataset_push(
                files,
                task=task,
                name=called,
                columns=_columns(column or []),
                separator=separator,
                allow_leaks=allow_leaks,
                store=store,
                on_progress=bars.told,
            )
    _show(check, as_json)


@app.command("list")
def show(
    context: typer.Context,
    corpora: Annotated[bool, typer.Option("--corpora", help="Corpora instead of datasets.")] = False,
    as_json: AsJson = False,
) -> None:
    """List datasets, or corpora."""
    with client_of(context) as client:
        if corpora:
            texts = list(client.corpora())
            rows = [(one.id, one.name, one.rows, one.words, one.created_at[:16]) for one in texts]
            if not as_json:
                show_table(("id", "name", "rows", "words", "created"), rows)
                return
            show_json(texts)
            return
        datasets = list(client.datasets())
    if as_json:
        show_json(datasets)
        return
    show_table(
        ("id", "name", "task", "rows", "created"),
        [
            (one.id, one.name, one.task, sum(split.rows for split in one.splits), one.created_at[:16])
            for one in datasets
        ],
    )


def _columns(pairs: list[str]) -> dict[str, str]:
    for pair in pairs:
        if not all(pair.partition("=")):
            raise typer.BadParameter(f"{pair!r} is not like text=body.", param_hint="--column")
    return {name: column for name, _, column in (pair.partition("=") for pair in pairs)}


def _show(check: Check, as_json: bool) -> None:
    if as_json:
        show_json(check)
    elif check.dataset is not None:
        say(f"Dataset {check.dataset} ({check.name}) is stored. Next: hmi train NAME --data {check.dataset}")
    elif check.corpus is not None:
        say(f"Corpus {check.corpus} ({check.name}) is stored.")
    else:
        say("Nothing is wrong with it; nothing was kept.")
