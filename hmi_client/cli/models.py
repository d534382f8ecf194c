"""`hmi models`: models, their versions and aliases."""

from typing import Annotated, Final, Literal

import typer

from hmi_client.cli import evaluation, transfer
from hmi_client.cli.output import AsJson, print_json, print_note, print_table
from hmi_client.cli.profiles import client_of
from hmi_client.responses import Alias, RebaseOffer, Version

app = typer.Typer(
    no_args_is_help=True,
    help="List, compare, rename, export, import and delete models, and move their aliases.",
)
canary = typer.Typer(no_args_is_help=True, help="Try a second version on a share of an alias's requests.")
app.add_typer(canary, name="canary")
app.command("compare")(evaluation.compare)
app.command("export")(transfer.export)
app.command("import")(transfer.import_)
NO_POLICY: Final = "default"
CORRELATIONS: Final = ("pearson", "spearman")
"""Metrics that are no shares, so their differences are not in points."""
SHORT: Final = ("id", "name", "number", "state", "policy", "digest", "created_at", "ready_at")
"""The fields of a version in its short form."""
Name = Annotated[str, typer.Argument(help="The model's name.")]
Number = Annotated[int, typer.Argument(min=1, help="The version's number.")]
AliasName = Annotated[str, typer.Option("--alias", help="The alias.")]
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
                ", ".join(map(_alias_text, model.aliases)),
                model.created_at[:16],
            )
            for model in models
        ],
    )


@app.command("versions")
def list_versions(
    context: typer.Context,
    name: Name,
    full: Annotated[
        bool, typer.Option("--full", help="With --json: also settings, metrics and jobs of each version.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the versions of a model."""
    with client_of(context) as client:
        versions = list(client.list_versions(name))
    if as_json:
        print_json(versions if full else [{name: getattr(one, name) for name in SHORT} for one in versions])
        return
    print_table(
        ("version", "state", "policy", "answers", "loss (95%)", "ms a text", "id", "digest", "ready"),
        [
            (
                each.number,
                each.state,
                each.policy or NO_POLICY,
                *_cascade_texts(each),
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
        typer.Argument(help="default: use the policy of the server."),
    ],
    as_json: AsJson = False,
) -> None:
    """Set how a version answers requests that set no quality."""
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
    from_version: Annotated[
        int | None,
        typer.Option("--from", min=1, help="The version to roll back from. Needed to go back a second time."),
    ] = None,
    reason: Reason = "",
    as_json: AsJson = False,
) -> None:
    """Point an alias at the version before its current one was promoted.

    If somebody has rolled it back already, nothing moves.
    """
    with client_of(context) as client:
        done = client.rollback(name, alias=alias, from_version=from_version, reason=reason)
    if as_json:
        print_json(done)
    elif done.moved:
        print_note(
            f"{name}@{alias} is now version {done.version}. It was rolled back from version "
            f"{done.from_version}."
        )
    else:
        print_note(
            f"{name}@{alias} is now version {done.version}. It had been rolled back from version "
            f"{done.from_version} already, so nothing moved. To go further back, add --from {done.version}."
        )


@canary.command("start")
def start_canary(
    context: typer.Context,
    name: Name,
    version: Number,
    percent: Annotated[int, typer.Option(min=1, max=99, help="The share of the requests.")],
    alias: AliasName = "default",
    as_json: AsJson = False,
) -> None:
    """Let a version answer a share of the requests to an alias, or change that share."""
    with client_of(context) as client:
        started = client.start_canary(name, version, percent=percent, alias=alias)
    if as_json:
        print_json(started)
    else:
        print_note(f"Version {version} answers {percent}% of the requests to {name}@{alias}.")


@canary.command("promote")
def promote_canary(
    context: typer.Context, name: Name, alias: AliasName = "default", as_json: AsJson = False
) -> None:
    """Point an alias at its canary, and end the canary."""
    with client_of(context) as client:
        _print_alias(name, client.promote_canary(name, alias=alias), as_json)


@canary.command("end")
def end_canary(context: typer.Context, name: Name, alias: AliasName = "default") -> None:
    """End the canary: the alias's own version answers all requests again."""
    with client_of(context) as client:
        client.end_canary(name, alias=alias)
    print_note(f"The canary of {name}@{alias} has ended.")


@app.command()
def rebase(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(help="The model's name. Without it, the models that can be rebased are listed.")
    ] = "",
    no_promote: Annotated[
        bool, typer.Option("--no-promote", help="Do not move the alias `default`.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Put a model on the newest version of its domain or root."""
    with client_of(context) as client:
        if not name:
            _print_offers(client.list_rebases(), as_json)
            return
        version = client.rebase_model(name, auto_promote=not no_promote)
    if as_json:
        print_json(version)
    else:
        print_note(f"{name}:{version.number} is {version.state}, on {version.config['rebase']['onto']}.")


@app.command()
def rename(
    context: typer.Context,
    name: Name,
    new_name: Annotated[str, typer.Argument(help="The new name.")],
    as_json: AsJson = False,
) -> None:
    """Give a model another name. Requests by the old name then fail."""
    with client_of(context) as client:
        renamed = client.rename_model(name, new_name)
    if as_json:
        print_json(renamed)
    else:
        print_note(f"{name} is now {renamed.name}. Requests to {name} fail from now on.")


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


def _print_offers(offers: list[RebaseOffer], as_json: bool) -> None:
    if as_json:
        print_json(offers)
    else:
        rows = [(each.model, each.version, each.base, each.onto, each.problem) for each in offers]
        print_table(("model", "version", "on", "newest", "problem"), rows)


def _cascade_texts(version: Version) -> tuple[str, str, str]:
    """What the cascade of a version answers from, its loss, and its time of that of the level full:
    ``("table", "0.3 points (-0.5 to 1.1)", "4.1 of 8.4")``. Empty where they were not measured. A loss of
    correlation is a number: "0.003 (-0.005 to 0.011)"."""
    reports = (version.metrics.get(job, {}).get("cascade", {}) for job in ("evaluate", "fine_tune"))
    cascade = next((one for one in reports if "serves" in one), None)
    if cascade is None:
        return "", "", ""
    loss, (low, high) = cascade["loss"], cascade["loss_interval"]
    if _metric(version) in CORRELATIONS:
        lost = f"{loss:.3f} ({low:.3f} to {high:.3f})"
    else:
        lost = f"{100 * loss:.1f} points ({100 * low:.1f} to {100 * high:.1f})"
    taken, full = (cascade["milliseconds"][level] for level in ("cascade", "full"))
    return cascade["serves"], lost, f"{taken:.2g} of {full:.2g}"


def _metric(version: Version) -> str:
    """The metric that fine-tuning and evaluation measured, such as ``macro_f1``."""
    dev = version.metrics.get("fine_tune", {}).get("dev", {})
    return str(dev.get("metric") or version.metrics.get("evaluate", {}).get("metric", ""))


def _alias_text(alias: Alias) -> str:
    """``default:1``; of a quick version ``default:1 quick``; with a canary ``default:1 (10% :2)``."""
    canary, quick = alias.canary, " quick" if alias.quick else ""
    share = f" ({canary.percent}% :{canary.version})" if canary else ""
    return f"{alias.name}:{alias.version}{quick}{share}"


def _print_alias(name: str, alias: Alias, as_json: bool) -> None:
    if as_json:
        print_json(alias)
    else:
        print_note(f"{name}@{alias.name} is now version {alias.version}.")
