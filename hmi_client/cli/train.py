"""`hmi train`: a new model, or a new version of one."""

import json
from typing import Annotated, Any

import typer

from hmi_client.cli.lookup import dataset_named, parent_named
from hmi_client.cli.output import AsJson, notes, say, show_json, show_table
from hmi_client.cli.progress import JobBars
from hmi_client.cli.session import client_of
from hmi_client.client import Client
from hmi_client.errors import HmiError, NotFound
from hmi_client.responses import Version


def train(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The model's name. One that is there gets a new version.")],
    data: Annotated[str, typer.Option(help="The dataset: its id, or its name.")],
    parent: Annotated[
        str,
        typer.Option(
            help="What a new model stands on: a version's id, `root` or `root/domain`, or with `:version`."
        ),
    ] = "",
    setting: Annotated[list[str] | None, typer.Option(help="epochs=3, and so on. Repeatable.")] = None,
    no_promote: Annotated[
        bool, typer.Option("--no-promote", help="Leave the alias `default` where it is.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Follow it to the end; exit code 1 if it fails.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train a model on a dataset."""
    settings = _settings(setting or [])
    with client_of(context) as client:
        dataset = dataset_named(client, data)
        if _is_there(client, name):
            if parent:
                raise HmiError(f"{name} is there already, and keeps its parent. Leave --parent out.")
            version = client.model_update(
                name, dataset=dataset, settings=settings, auto_promote=not no_promote
            )
        else:
            version = client.model_create(
                name,
                parent=parent_named(client, parent),
                dataset=dataset,
                settings=settings,
                auto_promote=not no_promote,
            )
        if wait:
            _follow(client, version)
            version = client.wait(version.id)
    _show(version, as_json)


def _is_there(client: Client, name: str) -> bool:
    try:
        client.model(name)
    except NotFound:
        return False
    return True


def _settings(pairs: list[str]) -> dict[str, Any]:
    """`name=value`; values as JSON, or else as words."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not (name and sign):
            raise typer.BadParameter(f"{pair!r} is not like epochs=3.", param_hint="--setting")
        try:
            settings[name] = json.loads(value)
        except ValueError:
            settings[name] = value
    return settings


def _follow(client: Client, version: Version) -> None:
    """Show the jobs as they go: bars on a terminal, a line for each state elsewhere."""
    told: dict[str, str] = {}
    with JobBars() as bars:
        for job in client.watch(version.id):
            bars.told(job)
            if not notes.is_terminal and told.get(job.id) != job.state:
                told[job.id] = job.state
                say(f"{job.kind}: {job.state}")


def _show(version: Version, as_json: bool) -> None:
    if as_json:
        show_json(version)
        return
    if version.state == "ready":
        say(f"{version.name}:{version.number} is ready. Next: hmi infer {version.name} 'a text'")
    else:
        say(f"{version.name}:{version.number} is {version.state}. Follow it: hmi jobs tail JOB")
    show_table(("job", "kind", "state"), [(job.id, job.kind, job.state) for job in version.jobs])
