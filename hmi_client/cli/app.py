"""The command `hmi` and its subcommands."""

import re
import sys
from typing import Annotated, Any, Final, cast

import typer
from typer.core import TyperGroup

from hmi_client.cli import (
    batch,
    batches,
    chat,
    data,
    domains,
    evaluation,
    generate,
    infer,
    jobs,
    keys,
    login,
    models,
    requests,
    train,
    webhooks,
)
from hmi_client.cli.exit_codes import INTERRUPTED, exit_code, print_error
from hmi_client.cli.profiles import DEFAULT_PROFILE, PROFILE_VARIABLE
from hmi_client.errors import HmiError
from hmi_client.version import __version__

EPILOG = (
    "Exit codes: 0 success; 1 a request, file or job was rejected or failed; 2 wrong usage; 3 not "
    "authenticated or not allowed; 4 not found; 5 conflict; 6 limit exceeded; 7 server not available; "
    "130 interrupted."
)

UsageError = cast("type[Exception]", typer.BadParameter.__mro__[1])
"""Wrong usage. Typer does not export it."""
VALIDATION_PREFIX: Final = "Value error, "
"""Pydantic, which checks the choices of options, puts it before a message."""
MAYBE_A_KEY: Final = re.compile(r"[^\s'()]{24,}")
"""An argument that is longer than all commands."""


class Commands(TyperGroup):
    """All subcommands. Errors about arguments that nothing takes do not quote what may be a key."""

    def invoke(self, ctx: Any) -> Any:
        """Run the subcommand."""
        try:
            return super().invoke(ctx)
        except UsageError as error:
            message = error.message.replace(VALIDATION_PREFIX, "", 1)  # type: ignore[attr-defined]
            hidden = MAYBE_A_KEY.sub("[hidden]", message) if type(error) is UsageError else message
            error.message = hidden  # type: ignore[attr-defined]
            raise


app = typer.Typer(
    name="hmi",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog=EPILOG,
    help="Upload data, train models and run inference.",
)
app.command("login", context_settings={"allow_extra_args": True})(login.login)
app.command("logout")(login.logout)
app.command("whoami")(login.whoami)
app.command("infer")(infer.infer)
app.command("chat")(chat.chat)
app.command("generate")(generate.generate)
app.command("train")(train.train)
app.command("evaluate")(evaluation.evaluate)
app.command("batch")(batch.batch)
app.command("requests")(requests.requests)
app.add_typer(data.app, name="data")
app.add_typer(models.app, name="models")
app.add_typer(jobs.app, name="jobs")
app.add_typer(keys.app, name="keys")
app.add_typer(domains.app, name="domains")
app.add_typer(batches.app, name="batches")
app.add_typer(webhooks.app, name="webhooks")


def print_version(requested: bool) -> None:
    """Print the version and exit."""
    if requested:
        typer.echo(f"hmi {__version__}")
        raise typer.Exit


@app.callback()
def select_profile(
    context: typer.Context,
    profile: Annotated[
        str, typer.Option(envvar=PROFILE_VARIABLE, help="The saved server and API key to use.")
    ] = DEFAULT_PROFILE,
    version: Annotated[  # noqa: ARG001 - its callback prints it
        bool,
        typer.Option("--version", callback=print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Keep --profile for the subcommand."""
    context.obj = profile


def main() -> None:
    """Run the command. Expected errors are printed as one sentence and set the exit code."""
    # Boxes have a width, and break lines: they are for terminals.
    app.rich_markup_mode = "rich" if sys.stderr.isatty() else None
    try:
        app()
    except HmiError as error:
        print_error(error)
        sys.exit(exit_code(error))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
