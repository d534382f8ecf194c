"""`hmi models`: models, their versions and where their aliases point."""

from typing import Annotated

import typer

from hmi_client.cli.output import AsJson, say, show_json, show_table
from hmi_client.cli.session import client_of
from hmi_client.responses import Alias

app = typer.Typer(no_args_is_help=True, help="Models, their versions, and which one answers.")
Name = Annotated[str, typer.Argument(help="The model's name.")]
AliasName = Annotated[str, typer.Option("--alias", help="Which alias.")]
Reason = Annotated[str, typer.Option(help="Why; kept with the move.")]


@app.command("list")
def show(context: typer.Context, as_json: AsJson = False) -> None:
    """List the tenant's models."""
    with client_of(context) as client:
        models = list(client.models())
    if as_json:
        show_json(models)
        return
    show_table(
        ("name", "task", "aliases", "created"),
        [
            (
                f"{one.tenant}/{one.name}",
                one.task,
                ", ".join(f"{alias.name}:{alias.version}" for alias in one.aliases),
                one.created_at[:16],
            )
            for one in models
        ],
    )


@app.command()
def versions(context: typer.Context, name: Name, as_json: AsJson = False) -> None:
    """List the versions of a model."""
    with client_of(context) as client:
        found = list(client.versions(name))
    if as_json:
        show_json(found)
        return
    show_table(
        ("version", "state", "id", "digest", "ready"),
        [
            (one.number, one.state, one.id, (one.digest or "")[:12], (one.ready_at or "")[:16])
            for one in found
        ],
    )


@app.command()
def promote(
    context: typer.Context,
    name: Name,
    version: Annotated[int, typer.Argument(min=1, help="The number of the version.")],
    alias: AliasName = "default",
    reason: Reason = "",
    as_json: AsJson = False,
) -> None:
    """Have a version answer: point an alias at it."""
    with client_of(context) as client:
        _show(name, client.promote(name, version, alias=alias, reason=reason), as_json)


@app.command()
def rollback(
    context: typer.Context,
    name: Name,
    alias: AliasName = "default",
    reason: Reason = "",
    as_json: AsJson = False,
) -> None:
    """Point an alias at the version it pointed at before."""
    with client_of(context) as client:
        _show(name, client.rollback(name, alias=alias, reason=reason), as_json)


@app.command()
def delete(
    context: typer.Context,
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete a model with all its versions."""
    if not yes:
        typer.confirm(f"Delete {name} with all its versions?", abort=True, err=True)
    with client_of(context) as client:
        client.model_delete(name)
    say(f"{name} is deleted.")


def _show(name: str, alias: Alias, as_json: bool) -> None:
    if as_json:
        show_json(alias)
    else:
        say(f"{name}@{alias.name} is version {alias.version} now.")
