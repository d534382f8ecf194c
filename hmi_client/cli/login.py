"""`hmi login`, `hmi logout`, `hmi whoami`."""

import os
import sys
from dataclasses import asdict
from typing import Annotated

import typer

from hmi_client.cli.output import AsJson, say, show_json, show_table
from hmi_client.cli.session import client_of, session_of
from hmi_client.client import DEFAULT_URL, URL_VARIABLE, Client
from hmi_client.errors import HmiError, NotFound, PermissionRefused
from hmi_client.profiles import Profile, profile_delete, profile_save
from hmi_client.responses import Usage

FROM_STDIN = "-"


def login(
    context: typer.Context,
    url: Annotated[str, typer.Option(help="Where the server is.", envvar=URL_VARIABLE)] = DEFAULT_URL,
    with_key: Annotated[
        str, typer.Option(help="The API key; - reads it from stdin. Without it you are asked.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Keep a server and an API key for further commands, once the key was seen to work."""
    key = sys.stdin.readline() if with_key == FROM_STDIN else with_key
    key = key.strip() or ("" if with_key else typer.prompt("API key", hide_input=True, err=True).strip())
    if not key or not key.isascii() or not key.isprintable():
        raise HmiError("That is no API key.")
    with Client(url, key) as client:
        tenant, server = client.whoami(), client.url
    name = session_of(context).profile
    file = profile_save(name, Profile(url=server, key=key))
    if as_json:
        show_json({"profile": name, "url": server, "tenant": tenant.slug, "file": os.fspath(file)})
    else:
        say(f"You are {tenant.name} ({tenant.slug}) at {server}. The key is kept in {file}.")


def logout(context: typer.Context) -> None:
    """Forget the kept key. It goes on working until somebody revokes it."""
    name = session_of(context).profile
    say(f"The profile {name} is forgotten." if profile_delete(name) else f"There is no profile {name}.")


def whoami(context: typer.Context, as_json: AsJson = False) -> None:
    """Show whose key it is, and what the tenant has of what it may have."""
    with client_of(context) as client:
        tenant = client.whoami()
        usage = _usage(client, tenant.slug)
    if as_json:
        show_json({**asdict(tenant), "url": client.url, "usage": usage})
        return
    rows: list[tuple[str, object]] = [("server", client.url), ("tenant", f"{tenant.name} ({tenant.slug})")]
    if usage:
        rows += [
            ("storage", f"{usage.storage_used_bytes:,} of {usage.quota.get('max_storage_bytes', 0):,} bytes"),
            ("requests today", f"{usage.requests_today:,} of {usage.quota.get('max_requests_per_day', 0):,}"),
        ]
    show_table(("", ""), rows)


def _usage(client: Client, tenant: str) -> Usage | None:
    """None where the key may only infer."""
    try:
        return client.usage(tenant)
    except (PermissionRefused, NotFound):
        return None
