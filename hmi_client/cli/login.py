"""`hmi login`, `hmi logout` and `hmi whoami`."""

import os
from dataclasses import asdict
from typing import Annotated

import typer

from hmi_client.cli.output import AsJson, print_json, print_note, print_table
from hmi_client.cli.profiles import Profile, client_of, delete_profile, profile_name, save_profile
from hmi_client.cli.text_input import STDIN, read_lines
from hmi_client.client import Client
from hmi_client.credentials import checked_key
from hmi_client.errors import NotFound, PermissionDenied, unauthenticated
from hmi_client.responses import Usage
from hmi_client.server import DEFAULT_URL, URL_VARIABLE

FROM_STDIN = "-"


def login(
    context: typer.Context,
    url: Annotated[str, typer.Option(help="The server's address.", envvar=URL_VARIABLE)] = DEFAULT_URL,
    api_key: Annotated[
        str, typer.Option(help="The API key; - reads it from stdin. Default: prompt for it.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Test a server and an API key, and save them for later commands."""
    if context.args:
        raise typer.BadParameter("Give the API key with --api-key, or leave it out to be asked for it.")
    given = api_key or typer.prompt("API key", hide_input=True, err=True)
    key = checked_key(next(read_lines(STDIN), "") if given == FROM_STDIN else given)
    if not key:
        raise unauthenticated("The API key is empty.")
    with Client(url, key) as client:
        tenant, server = client.whoami(), client.url
    name = profile_name(context)
    file = save_profile(name, Profile(url=server, key=key))
    if as_json:
        print_json({"profile": name, "url": server, "tenant": tenant.slug, "file": os.fspath(file)})
    else:
        print_note(f"You are {tenant.name} ({tenant.slug}) at {server}. The key is saved in {file}.")


def logout(context: typer.Context) -> None:
    """Delete the saved key. It stays valid until it is revoked."""
    name = profile_name(context)
    print_note(f"The profile {name} is deleted." if delete_profile(name) else f"There is no profile {name}.")


def whoami(context: typer.Context, as_json: AsJson = False) -> None:
    """Show the key's tenant and its usage."""
    with client_of(context) as client:
        tenant = client.whoami()
        usage = _usage(client, tenant.slug)
    if as_json:
        print_json({**asdict(tenant), "url": client.url, "usage": usage})
        return
    rows: list[tuple[str, object]] = [("server", client.url), ("tenant", f"{tenant.name} ({tenant.slug})")]
    if usage:
        rows += [
            ("storage", f"{usage.storage_used_bytes:,} of {usage.quota.get('max_storage_bytes', 0):,} bytes"),
            ("requests today", f"{usage.requests_today:,} of {usage.quota.get('max_requests_per_day', 0):,}"),
        ]
    print_table(("", ""), rows)


def _usage(client: Client, tenant: str) -> Usage | None:
    """None if the key may only infer."""
    try:
        return client.get_usage(tenant)
    except (PermissionDenied, NotFound):
        return None
