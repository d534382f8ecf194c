"""`hmi models`: models, their versions and aliases."""

from typing import Annotated, Final, Literal

import typer

from hmi_client.cli.output import AsJson, print_json, print_note, print_table
from hmi_client.cli.profiles import client_of
from hmi_client.responses import Alias

app = typer.Typer(no_args_is_help=True, help="List and delete models, and move their aliases.")
NO_POLICY: Final = "default"
Name = Annotated[str, typer.Argument(help="The model's name.")]
Number = Annotated[int, typer.Argument(min=1, help="The version's number.")]
AliasName = Annotated[str, typer.Option("--alias", help="The alias to move.")]
Reason = Annotated[str, typer.Option(help="The reason, saved with the move.")]


@app.command("list")
def list_models(context: typer.Context, as_json: AsJson = False) -> None:
    """List the tenant's models."""
    with client_of(context) as client:
        models = list(client.list_models())
    if as_json:
        print_json(models)
        return
    print_table(
        ("name", "task", "aliases", "created"),
        [
            (
                f"{model.tenant}/{model.name}",
                model.task,
                ", ".join(f"{alias.name}:{alias.version}" for alias in model.aliases),
                model.created_at[:16],
            )
            for model in models
        ],
    )


@app.command("versions")
def list_versions(context: typer.Context, name: Name, as_json: AsJson = False) -> None:
    """List the versions of a model."""
    with client_of(context) as client:
        versions = list(client.list_versions(name))
    if as_json:
        print_json(versions)
        return
    print_table(
        ("version", "state", "policy", "id", "digest", "ready"),
        [
            (
                each.number,
                each.state,
                each.policy or NO_POLICY,
                each.id,
                (each.digest or "")[:12],
                (each.ready_at or "")[:16],
            )
            for each in versions
        ],
    )


@app.command("policy")
def set_policy(
    context: typer.Context,
    name: Name,
    version: Number,
    policy: Annotated[
        Literal["table", "full", "cascade", "default"],
        typer.Argument(help="default: as the deployment says."),
    ],
    as_json: AsJson = False,
) -> None:
    """Set how a version answers requests that choose no quality."""
    with client_of(context) as client:
        changed = client.set_policy(name, version, None if policy == NO_POLICY else policy)
    if as_json:
        print_json(changed)
    else:
        print_note(f"The policy of {name}:{changed.number} is now {changed.policy or NO_POLICY}.")


@app.command()
def promote(
    context: typer.Context,
    name: Name,
    version: Number,
    alias: AliasName = "default",
    reason: Reason = "",
    as_json: AsJson = False,
) -> None:
    """Point an alias at a version."""
    with client_of(context) as client:
        _print_alias(name, client.promote(name, version, alias=alias, reason=reason), as_json)


@app.command()
def rollback(
    context: typer.Context,
    name: Name,
    alias: AliasName = "default",
    reason: Reason = "",
    as_json: AsJson = False,
) -> None:
    """Point an alias back at its previous version."""
    with client_of(context) as client:
        _print_alias(name, client.rollback(name, alias=alias, reason=reason), as_json)


@app.command()
def delete(
    context: typer.Context,
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete a model with all its versions."""
    if not yes:
        typer.confirm(f"Delete {name} with all its versions?", abort=True, err=True)
    with client_of(context) as client:
        client.delete_model(name)
    print_note(f"{name} is deleted.")


def _print_alias(name: str, alias: Alias, as_json: bool) -> None:
    if as_json:
        print_json(alias)
    else:
        print_note(f"{name}@{alias.name} is now version {alias.version}.")
