"""`manage.py up`: run all processes in the foreground."""

import json
import shlex
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, InterfaceError, connections
from redis.exceptions import RedisError
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from demo.job_progress import DemoProgress
from demo.options import DemoOptions, add_demo_arguments
from demo.people import Login, admin_ensure, people_ensure
from demo.record.models import Goal
from demo.record.selectors import DemoState, DemoStatus, demo_status
from demo.record.services import demo_request
from demo.tree import DemoSummary, demo_is_built, demo_summary, outdated_parts
from hmi_site.embedded.process import ChildError
from hmi_site.launcher.first_account import FirstAccount, first_account_ensure
from hmi_site.launcher.stack import Stack
from tenants.base.errors import HmiError
from tenants.base.plurals import counted

BUILDING = (
    "The demo is being built: watch it below, or at {url}/admin/jobs/job/.\n"
    "The line above is answered in a minute or two, when the first model is ready."
)


class Command(BaseCommand):
    """Runs the site until Ctrl-C. The demo is built meanwhile."""

    help = "Start everything: database, Valkey, inference worker, Celery workers, web. Ctrl-C stops it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The options of the command."""
        parser.add_argument("--no-demo", action="store_true", help="do not build the demo")
        add_demo_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Exit status: 0 after Ctrl-C or SIGTERM, 1 after an error."""
        console = Console(soft_wrap=True)
        try:
            with Stack(console) as stack:
                account = first_account_ensure()
                demo = None if options["no_demo"] else _demo(console, DemoOptions.of(options))
                show_welcome(console, url=stack.url, account=account, demo=demo)
                if demo is None or not demo.is_being_built:
                    stack.wait()
                with DemoProgress(console, demo.first_model) as progress:
                    stack.wait(_follow(console, progress))
            console.print("Stopped.")
        except ChildError as error:
            raise CommandError(str(error)) from None


@dataclass(frozen=True, slots=True)
class ShownDemo:
    """What the welcome says of the demo: a first request, unless it was removed, and a note."""

    summary: DemoSummary | None
    note: str = ""
    is_being_built: bool = False

    @property
    def first_model(self) -> tuple[str, str]:
        """The tenant and the name of the model of the first request."""
        tenant, _, name = self.summary.model.partition("/") if self.summary else ("", "", "")
        return tenant, name


def _demo(console: Console, options: DemoOptions) -> ShownDemo | None:
    """Have the demo built unless it is, was removed, or failed. If that is not possible the site runs on."""
    try:
        return _demo_start(options)
    except (HmiError, DatabaseError, InterfaceError, RedisError, OSError) as error:
        console.print(f"[red]The demo cannot be built.[/red] {escape(str(error))}", highlight=False)
        connections.close_all()
        return None


def _demo_start(options: DemoOptions) -> ShownDemo:
    status = demo_status()
    if status.goal == Goal.REMOVED and status.state != DemoState.INCOMPLETE:
        verb = "is being" if status.state == DemoState.WORKING else "was"
        return ShownDemo(None, f"The demo {verb} removed. `manage.py demo build` builds it again.")
    people_ensure(generative=options.generative)
    summary = demo_summary()
    if status.state == DemoState.INCOMPLETE and not outdated_parts():
        return ShownDemo(summary, _incomplete(status))
    if status.state == DemoState.BUILT and demo_is_built(options):
        return ShownDemo(summary)
    if status.state != DemoState.WORKING:
        demo_request(goal=Goal.BUILT, actor=None, options=options)
    earlier = len(outdated_parts())
    again = f"\n{counted(earlier, 'part')} of an earlier version of the demo are replaced." if earlier else ""
    return ShownDemo(summary, f"{BUILDING}{again}", is_being_built=True)


def _incomplete(status: DemoStatus) -> str:
    return (
        f"[red]The demo is not complete.[/red] {escape(status.error)}\n"
        "`manage.py demo build`, or the button in the administration, goes on with it."
    )


def _follow(console: Console, progress: DemoProgress) -> Callable[[], bool]:
    """What shows the progress of the demo, and at its end how it ended."""

    def update() -> bool:
        if progress.update():
            return True
        status = progress.status
        if status.state == DemoState.INCOMPLETE:
            console.print(_incomplete(status), highlight=False)
        elif status.state == DemoState.BUILT:
            console.print("  [green]✓[/green] The demo is complete.")
        return False

    return update


def show_welcome(console: Console, *, url: str, account: FirstAccount, demo: ShownDemo | None) -> None:
    """Print the site's URL, the logins, an example request, and what is still being built."""
    summary = demo.summary if demo is not None else None
    console.print(f"\nHMI is running at [bold]{url}[/bold] (admin: {url}/admin/, API: {url}/api/docs/)")
    if logins := summary.logins if summary is not None else _admin_login():
        console.print(_table(logins))
    _show_account(console, account)
    if summary is not None:
        console.print(f"API key: {summary.api_key}\n", highlight=False)
        console.print(curl_line(url, summary), highlight=False, markup=False, soft_wrap=True)
    if demo is not None and demo.note:
        console.print("\n" + demo.note.replace("{url}", url), highlight=False)
    console.print("\nCtrl-C stops everything.")


def _admin_login() -> list[Login]:
    """The administrator, who is created if the installation has none."""
    login = admin_ensure()
    return [login] if login is not None else []


def curl_line(url: str, demo: DemoSummary) -> str:
    """An infer request as a curl command."""
    body = json.dumps({"model": demo.model, "inputs": [demo.text]}, ensure_ascii=False)
    return (
        f"curl -s {url}/api/v1/infer -H 'Authorization: Bearer {demo.api_key}' "
        f"-H 'Content-Type: application/json' -d {shlex.quote(body)}"
    )


def _show_account(console: Console, account: FirstAccount) -> None:
    made = {
        "user": account.user,
        "tenant": account.tenant,
        "API key": "HMI_INIT_KEY" if account.api_key else "",
    }
    if any(made.values()):
        console.print("Created: " + ", ".join(f"{what} {name}" for what, name in made.items() if name))
    if account.password:
        console.print(f"Password of {account.user}, shown once: {account.password}", highlight=False)


def _table(logins: Sequence[Login]) -> Table:
    table = Table("sign in as", "password", title="Logins", title_justify="left", box=None)
    for login in logins:
        table.add_row(login.username, login.password or "(changed)")
    return table
