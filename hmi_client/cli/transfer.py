"""`hmi models export` and `hmi models import`: adapters and archives as files."""

import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

from hmi_client.cli.hints import Hint, hints
from hmi_client.cli.lookup import parent_id, version_of
from hmi_client.cli.output import AsJson, print_json, print_note
from hmi_client.cli.profiles import client_of
from hmi_client.operations.transfer import ExportFormat

AdapterTask = Literal["classification", "multilabel", "regression", "generation", "chat"]
HINTS: dict[str, Hint] = {
    "missing_branch": "Export it with --branch to include its base models.",
    "labels": "Name the outputs in order with --label, once for each.",
    "task": "Choose the task with --task.",
    "drop_lower": "To discard these changes, add --drop-lower.",
    "parent": "Choose the version to build upon with --parent.",
    "name": "Choose another name with --name.",
}


def export(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The model's name.")],
    version: Annotated[
        int | None, typer.Argument(min=1, help="The version's number. Default: that of the alias `default`.")
    ] = None,
    format: Annotated[  # noqa: A002 - the option's name
        ExportFormat,
        typer.Option(
            help="archive: for another installation; peft, adapterhub: an adapter for that library."
        ),
    ] = "archive",
    branch: Annotated[
        bool, typer.Option("--branch", help="Include the domains and the root in an archive.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(dir_okay=False, help="The zip file. Default: NAME-vVERSION[-FORMAT].zip.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")] = False,
    as_json: AsJson = False,
) -> None:
    """Export a version of a model as a zip file."""
    with client_of(context) as client:
        found = version_of(client, name, version)
        form = "" if format == "archive" else f"-{format}"
        file = out or Path(f"{found.name}-v{found.number}{form}.zip")
        if file.exists() and not overwrite:
            message = f"{file} exists. Choose another file, or replace it with --overwrite."
            raise typer.BadParameter(message, param_hint="--out")
        client.export_version(found.id, file, format=format, branch=branch)
    if as_json:
        print_json({"file": str(file), "version": found.id, "format": format})
    else:
        print_note(f"Exported {found.name}:{found.number} to {file}.")


def import_(
    context: typer.Context,
    archive: Annotated[
        Path,
        typer.Argument(exists=True, readable=True, help="A zip file, or its folder."),
    ],
    name: Annotated[str, typer.Option(help="The model's name. Required for an adapter.")] = "",
    parent: Annotated[
        str,
        typer.Option(help="The parent: a version's id, or root or root/domain, optionally with :version."),
    ] = "",
    new_version: Annotated[
        bool, typer.Option("--new-version", help="Create a new version of an existing model.")
    ] = False,
    label: Annotated[
        list[str] | None, typer.Option(help="The name of an output of the adapter, in order. Repeatable.")
    ] = None,
    task: Annotated[
        AdapterTask | None, typer.Option(help="The adapter's task, if its folder does not define it.")
    ] = None,
    pairs: Annotated[bool, typer.Option("--pairs", help="The adapter's inputs have two texts.")] = False,
    drop_lower: Annotated[
        bool,
        typer.Option("--drop-lower", help="Discard changes to the lower layers, which a table replaces."),
    ] = False,
    license: Annotated[str, typer.Option(help="The terms of use.")] = "",  # noqa: A002 - the option's name
    as_json: AsJson = False,
) -> None:
    """Import a model: an archive from another installation, or a PEFT or AdapterHub adapter."""
    with client_of(context) as client, _zipped(archive) as (file, is_adapter), hints(HINTS):
        if is_adapter:
            if not name:
                raise typer.BadParameter("A name is required to import an adapter.", param_hint="--name")
            version = client.import_adapter(
                file,
                parent=parent_id(client, parent),
                name=name,
                new_version=new_version,
                labels=label or (),
                task=task or "",
                pairs=pairs,
                drop_lower=drop_lower,
                license=license,
            )
        else:
            chosen = parent_id(client, parent) if parent else None
            version = client.import_version(file, name=name, parent=chosen)
    if as_json:
        print_json(version)
    else:
        print_note(
            f"{version.name}:{version.number} is {version.state}. Next: hmi infer {version.name} 'a text'"
        )


@contextmanager
def _zipped(path: Path) -> Iterator[tuple[Path, bool]]:
    """Yield the zip file, or a zip file of the folder's files, and whether it contains an adapter."""
    if path.is_dir():
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / f"{path.resolve().name}.zip"
            is_version = (path / "manifest.json").is_file()  # its artifacts are in folders
            with zipfile.ZipFile(file, "w", strict_timestamps=False) as made:
                for each in sorted(path.rglob("*") if is_version else path.iterdir()):
                    if each.is_file():
                        made.write(each, each.relative_to(path))
            yield file, _is_adapter(file)
    else:
        yield path, _is_adapter(path)


def _is_adapter(file: Path) -> bool:
    """Whether the zip file has an `adapter_config.json`. Raises BadParameter if it is not a zip file."""
    try:
        with zipfile.ZipFile(file) as archive:
            names = [name.replace("\\", "/") for name in archive.namelist()]
    except (OSError, zipfile.BadZipFile) as error:
        raise typer.BadParameter(f"{file} is not a zip file: {error}.", param_hint="ARCHIVE") from error
    return any(f"/{name}".endswith("/adapter_config.json") for name in names)
