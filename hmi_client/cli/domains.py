"""`hmi domains`: domains and the version tree."""

from typing import Annotated

import typer

from hmi_client.cli.lookup import corpus_id, domain_id, parent_id
from hmi_client.cli.output import AsJson, print_json, print_note, print_table
from hmi_client.cli.profiles import client_of
from hmi_client.responses import Version

app = typer.Typer(no_args_is_help=True, help="Manage domains, and list the version tree.")
DomainName = Annotated[str, typer.Argument(help="The domain: its id, its name, or root/domain.")]
CorpusName = Annotated[str, typer.Option(help="The corpus's id or name.")]
BudgetMb = Annotated[
    float | None,
    typer.Option(
        help="The size of the table in MB, filled with the rows worth most. Default: 64, or that of the "
        "domain's newest version."
    ),
]
Alpha = Annotated[
    float | None,
    typer.Option(help="The share of the corpus that the table covers, in %. In place of --budget-mb."),
]


@app.command("list")
def list_domains(context: typer.Context, as_json: AsJson = False) -> None:
    """List the domains of the tenant and of the platform."""
    with client_of(context) as client:
        domains = list(client.list_domains())
    if as_json:
        print_json(domains)
        return
    print_table(
        ("domain", "owner", "description"),
        [(f"{each.root}/{each.name}", each.tenant or "the platform", each.description) for each in domains],
    )


@app.command()
def tree(context: typer.Context, as_json: AsJson = False) -> None:
    """List all versions of roots, domains and models. --parent takes their ids."""
    with client_of(context) as client:
        nodes = client.get_tree()
    if as_json:
        print_json(nodes)
        return
    print_table(
        ("id", "kind", "version", "state", "parent"),
        [(node.id, node.kind, f"{node.name}:{node.number}", node.state, node.parent) for node in nodes],
    )


@app.command()
def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The new domain's name.")],
    corpus: CorpusName,
    parent: Annotated[
        str,
        typer.Option(help="The parent: a version's id, or root or root/domain, optionally with :version."),
    ] = "",
    description: Annotated[str, typer.Option(help="A description.")] = "",
    budget_mb: BudgetMb = None,
    alpha: Alpha = None,
    as_json: AsJson = False,
) -> None:
    """Start building a domain from a corpus."""
    with client_of(context) as client:
        version = client.create_domain(
            name,
            parent=parent_id(client, parent),
            corpus=corpus_id(client, corpus),
            description=description,
            budget_mb=budget_mb,
            alpha=alpha,
        )
    _print_started(version, as_json)


@app.command()
def update(
    context: typer.Context,
    domain: DomainName,
    corpus: CorpusName,
    budget_mb: BudgetMb = None,
    alpha: Alpha = None,
    as_json: AsJson = False,
) -> None:
    """Start building the next version of a domain from another corpus."""
    with client_of(context) as client:
        version = client.update_domain(
            domain_id(client, domain), corpus=corpus_id(client, corpus), budget_mb=budget_mb, alpha=alpha
        )
    _print_started(version, as_json)


@app.command("rebase")
def rebase_models(
    context: typer.Context,
    domain: DomainName,
    as_json: AsJson = False,
) -> None:
    """Rebase all models on a domain onto its newest version."""
    with client_of(context) as client:
        done = client.rebase_models(domain_id(client, domain))
    if as_json:
        print_json(done)
        return
    print_table(
        ("model", "version", "job"),
        [(each.name, each.number, each.jobs[0].id) for each in done.versions],
    )
    for refused in done.refused:
        print_note(f"{refused.model} was not rebased: {refused.message}")


def _print_started(version: Version, as_json: bool) -> None:
    if as_json:
        print_json(version)
    else:
        print_note(f"{version.name}:{version.number} is {version.state}.")
        print_table(("job", "kind", "state"), [(job.id, job.kind, job.state) for job in version.jobs])
