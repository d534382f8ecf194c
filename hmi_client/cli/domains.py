"""`hmi domains`: what models can stand on."""

from typing import Annotated

import typer

from hmi_client.cli.lookup import corpus_named, parent_named
from hmi_client.cli.output import AsJson, say, show_json, show_table
from hmi_client.cli.session import client_of

app = typer.Typer(no_args_is_help=True, help="Domains, and the version tree.")


@app.command("list")
def show(context: typer.Context, as_json: AsJson = False) -> None:
    """List the domains that you can build on."""
    with client_of(context) as client:
        domains = list(client.domains())
    if as_json:
        show_json(domains)
        return
    show_table(
        ("domain", "of", "description"),
        [(f"{one.root}/{one.name}", one.tenant or "the platform", one.description) for one in domains],
    )


@app.command()
def tree(context: typer.Context, as_json: AsJson = False) -> None:
    """List every version: its id is what --parent takes."""
    with client_of(context) as client:
        nodes = client.tree()
    if as_json:
        show_json(nodes)
        return
    show_table(
        ("id", "kind", "version", "state", "parent"),
        [(one.id, one.kind, f"{one.name}:{one.number}", one.state, one.parent) for one in nodes],
    )


@app.command()
def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The new domain's name.")],
    corpus: Annotated[str, typer.Option(help="The corpus: its id, or its name.")],
    parent: Annotated[
        str, typer.Option(help="A version's id, `root` or `root/domain`, or with `:version`.")
    ] = "",
    description: Annotated[str, typer.Option(help="What it is about.")] = "",
    as_json: AsJson = False,
) -> None:
    """Begin to build a domain from a corpus."""
    with client_of(context) as client:
        version = client.domain_create(
            name,
            parent=parent_named(client, parent),
            corpus=corpus_named(client, corpus),
            description=description,
        )
    if as_json:
        show_json(version)
    else:
        say(f"{version.name}:{version.number} is {version.state}.")
        show_table(("job", "kind", "state"), [(job.id, job.kind, job.state) for job in version.jobs])
