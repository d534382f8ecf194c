"""The command and its subcommands."""

import sys
from typing import Annotated

import typer

from hmi_client.cli import batches, data, domains, infer, jobs, login, models, train
from hmi_client.cli.exit_codes import INTERRUPTED, exit_code, say_error
from hmi_client.cli.session import PROFILE_VARIABLE, Session
from hmi_client.errors import HmiError
from hmi_client.profiles import DEFAULT

EPILOG = (
    "Exit codes: 0 done; 1 refused or failed (a request, a file, a job); 2 wrong usage; 3 no key, or not "
    "allowed; 4 not found; 5 conflict; 6 limit reached; 7 server not available; 130 interrupted."
)

app = typer.Typer(
    name="hmi",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog=EPILOG,
    help="Upload data, train models of your own, and ask them.",
)
app.command("login")(login.login)
app.command("logout")(login.logout)
app.command("whoami")(login.whoami)
app.command("infer")(infer.infer)
app.command("train")(train.train)
app.add_typer(data.app, name="data")
app.add_typer(models.app, name="models")
app.add_typer(jobs.app, name="jobs")
app.add_typer(domains.app, name="domains")
app.add_typer(batches.app, name="batches")


@app.callback()
def session(
    context: typer.Context,
    profile: Annotated[
        str, typer.Option(envvar=PROFILE_VARIABLE, help="Which of the servers that you logged in to.")
    ] = DEFAULT,
) -> None:
    """Options of all commands."""
    context.obj = Session(profile)


def main() -> None:
    """Run the command; every expected failure is one sentence and an exit code."""
    try:
        app()
    except HmiError as error:
        say_error(error)
        sys.exit(exit_code(error))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
