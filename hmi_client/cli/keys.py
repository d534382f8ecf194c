"""`hmi keys`: API keys, which only a signed-in person may manage."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Final

import typer

from hmi_client.cli.output import AsJson, print_json, print_note, print_table
from hmi_client.cli.profiles import server_url
from hmi_client.cli.text_input import STDIN, empty_input, read_lines
from hmi_client.errors import HmiError
from hmi_client.login_session import LoginSession
from hmi_client.responses import ApiKey

USER_VARIABLE: Final = "HMI_USER"
app = typer.Typer(
    no_args_is_help=True,
    help="List, create and revoke API keys. No API key may do this, so each command asks for your user name "
    "and password.",
)


class Scope(StrEnum):
    """What a key may do."""

    INFER = "infer"
    MANAGE = "manage"


User = Annotated[
    str, typer.Option(envvar=USER_VARIABLE, help="Your user name or e-mail address. Default: prompt for it.")
]
TenantName = Annotated[str, typer.Option(help="The tenant. Default: the only one you are a member of.")]


@app.command("list")
def list_keys(
    context: typer.Context, user: User = "", tenant: TenantName = "", as_json: AsJson = False
) -> None:
    """List API keys, newest first. The password comes from a prompt, or from stdin."""
    with _signed_in(context, user, tenant) as (session, slug):
        keys = list(session.list_api_keys(slug))
    if as_json:
        print_json(keys)
        return
    print_table(
        ("key", "name", "scopes", "state", "created", "last used", "expires"),
        [
            (
                key.prefix,
                key.name,
                ", ".join(key.scopes),
                _state(key),
                key.created_at[:16],
                (key.last_used_at or "")[:16],
                (key.expires_at or "")[:16],
            )
            for key in keys
        ],
    )


@app.command("new")
def new_key(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A name that says where the key is used.")],
    scope: Annotated[
        list[Scope] | None,
        typer.Option(
            help="infer: use models; manage: manage models, data and domains. Repeatable. Default: infer."
        ),
    ] = None,
    days: Annotated[
        int | None, typer.Option(min=1, max=3650, help="The key expires after so many days. Default: never.")
    ] = None,
    user: User = "",
    tenant: TenantName = "",
    as_json: AsJson = False,
) -> None:
    """Create an API key, and print it. It cannot be shown again."""
    expires = None if days is None else (datetime.now(UTC) + timedelta(days=days)).isoformat()
    with _signed_in(context, user, tenant) as (session, slug):
        scopes = [one.value for one in scope or [Scope.INFER]]
        made = session.create_api_key(slug, name, scopes=scopes, expires_at=expires)
    if as_json:
        print_json(made)
        return
    typer.echo(made.key)
    print_note(f"The key {made.prefix} ({made.name}) cannot be shown again. To use it here: hmi login")


@app.command("revoke")
def revoke_key(
    context: typer.Context,
    key: Annotated[str, typer.Argument(help="The first 8 characters of the key.")],
    user: User = "",
    tenant: TenantName = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Revoke an API key. Requests with it then fail."""
    prefix = key.partition(".")[0]
    if not yes:
        typer.confirm(f"Revoke the key {prefix}?", abort=True, err=True)
    with _signed_in(context, user, tenant) as (session, slug):
        session.revoke_api_key(slug, prefix)
    print_note(f"The key {prefix} is revoked.")


@contextmanager
def _signed_in(context: typer.Context, user: str, tenant: str) -> Iterator[tuple[LoginSession, str]]:
    secrets = _Secrets()
    user = user or str(typer.prompt("User name or e-mail address", err=True))
    password = secrets.ask("Password")
    with LoginSession(server_url(context), user, password, lambda: secrets.ask("Code")) as session:
        slugs = [one.slug for one in session.tenants()]
        if not tenant and len(slugs) != 1:
            raise HmiError(
                f"Choose a tenant with --tenant. You are a member of: {', '.join(slugs) or 'none'}."
            )
        yield session, tenant or slugs[0]


class _Secrets:
    """Password and code: from prompts, or the lines of stdin if that is no terminal."""

    def __init__(self) -> None:
        self._lines = None if sys.stdin.isatty() else read_lines(STDIN)

    def ask(self, what: str) -> str:
        if self._lines is None:
            return str(typer.prompt(what, hide_input=True, err=True))
        line = next(self._lines, "").rstrip("\r\n")
        if not line:
            raise empty_input(STDIN)
        return line


def _state(key: ApiKey) -> str:
    if key.revoked:
        return "revoked"
    expired = key.expires_at is not None and datetime.fromisoformat(key.expires_at) <= datetime.now(UTC)
    return "expired" if expired else "active"
