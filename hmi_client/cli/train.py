"""`hmi train`: train a new model, or a new version of one."""

import json
from contextlib import nullcontext
from typing import Annotated, Any

import typer

from hmi_client.cli.hints import Hint, hints
from hmi_client.cli.lookup import dataset_id, parent_id
from hmi_client.cli.output import AsJson, print_json, print_note, print_table, stderr
from hmi_client.cli.profiles import client_of
from hmi_client.cli.progress import JobBars, JobLines
from hmi_client.client import Client
from hmi_client.errors import HmiError, NotFound
from hmi_client.responses import Version

HINTS: dict[str, Hint] = {
    "settings": "Settings are given as --setting NAME=VALUE.",
    "parent": "Choose the version to build upon with --parent. List them: hmi domains tree",
    "dataset": "Choose another dataset with --data. List them: hmi data list",
}


def train(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The model's name. An existing model gets a new version.")],
    data: Annotated[str, typer.Option(help="The dataset's id or name.")],
    parent: Annotated[
        str,
        typer.Option(
            help="A new model's parent: a version's id, or root or root/domain, optionally with :version. "
            "Default: the recommended one."
        ),
    ] = "",
    setting: Annotated[
        list[str] | None, typer.Option(help="A training setting, such as epochs=3. Repeatable.")
    ] = None,
    no_promote: Annotated[
        bool, typer.Option("--no-promote", help="Do not move the alias `default`.")
    ] = False,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick/--no-quick",
            help="Whether a new model's version 1 is a quick one, which answers until version 2 is trained.",
        ),
    ] = True,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until it is trained. The exit code is 1 if that fails.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train a model on a dataset."""
    settings = _settings(setting or [])
    with client_of(context) as client, hints(HINTS):
        dataset = dataset_id(client, data)
        is_new = not _exists(client, name)
        if not is_new:
            if parent:
                raise HmiError(f"{name} exists and keeps its parent. Omit --parent.")
            version = client.update_model(
                name, dataset=dataset, settings=settings, auto_promote=not no_promote
            )
        else:
            version = client.create_model(
                name,
                parent=parent_id(client, parent) if parent else None,
                dataset=dataset,
                settings=settings,
                auto_promote=not no_promote,
                quick=quick,
            )
            if not parent:
                _print_parent(client, version)
        if wait:
            _follow(client, version, _quick_version(client, version) if is_new and quick else None)
            version = client.wait_for_version(version.id)
            if not no_promote and not as_json:
                _print_default(client, version)
    _print_version(version, as_json)


def _exists(client: Client, name: str) -> bool:
    try:
        client.get_model(name)
    except NotFound:
        return False
    return True


def _print_parent(client: Client, version: Version) -> None:
    """Say which parent the server chose."""
    if version.parent is not None:
        chosen = client.get_version(version.parent)
        print_note(f"The parent is {chosen.name}:{chosen.number}, the recommended one. Choose with --parent.")


def _settings(pairs: list[str]) -> dict[str, Any]:
    """Parse name=value pairs. A value that is not JSON is a string."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not (name and sign):
            raise typer.BadParameter(f"{pair!r} is not of the form epochs=3.", param_hint="--setting")
        try:
            settings[name] = json.loads(value)
        except ValueError:
            settings[name] = value
    return settings


def _quick_version(client: Client, version: Version) -> int | None:
    """The id of a new model's quick version. None if it has none."""
    return next((one.id for one in client.list_versions(version.name) if one.quick), None)


def _follow(client: Client, version: Version, quick: int | None) -> None:
    """Print the progress of the jobs, bars on a terminal, else lines; and that the quick version answers."""
    with JobBars() if stderr.is_terminal else nullcontext(JobLines()) as shown:
        for job in client.watch_version(version.id, quick=quick):
            shown.update(job)
            if job.kind == "quick" and job.state == "succeeded":
                print_note(f"{version.name}:1, a quick version, answers: hmi infer {version.name} 'a text'")


def _print_default(client: Client, version: Version) -> None:
    """Say so if `default` was not moved to a ready version."""
    default = next((one for one in client.get_model(version.name).aliases if one.name == "default"), None)
    if version.state == "ready" and default is not None and default.version < version.number:
        print_note(
            f"{version.name}@default stays at version {default.version}, as version {version.number} was not "
            f"shown to be as good: see the model's page. To move it: hmi models promote {version.name} "
            f"{version.number}"
        )


def _print_version(version: Version, as_json: bool) -> None:
    if as_json:
        print_json(version)
        return
    if version.state == "ready":
        print_note(f"{version.name}:{version.number} is ready. Next: hmi infer {version.name} 'a text'")
    else:
        print_note(f"{version.name}:{version.number} is {version.state}. Follow it: hmi jobs tail JOB")
    print_table(("job", "kind", "state"), [(job.id, job.kind, job.state) for job in version.jobs])
