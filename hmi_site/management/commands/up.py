"""`manage.py up`: run all processes in the foreground."""

import json
import shlex
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, InterfaceError, connections
from redis.exceptions import RedisError
from rich.console import Console
from rich.table import Table

from demo.job_progress import DemoError
from demo.options import DemoOptions, add_demo_arguments
from demo.tree import DemoSummary, demo_build, demo_summary
from hmi_site.embedded.process import ChildError
from hmi_site.launcher.stack import Stack


class Command(BaseCommand):
    """Runs the site until Ctrl-C. The first start builds the demo."""

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
                demo = None if options["no_demo"] else _demo(console, DemoOptions.of(options))
                show_welcome(console, url=stack.url, demo=demo)
                stack.wait()
            console.print("Stopped.")
        except ChildError as error:
            raise CommandError(str(error)) from None


def _demo(console: Console, options: DemoOptions) -> DemoSummary | None:
    """Build the demo if it is missing. The site keeps running if that fails."""
    try:
        demo_build(console, options)
    except (DemoError, DatabaseError, InterfaceError, RedisError) as error:
        console.print(f"[red]The demo is not complete.[/red] {error}", highlight=False)
        connections.close_all()
        console.print("The next start continues it; --no-demo skips it.")
        return None
    return demo_summary()


def show_welcome(console: Console, *, url: str, demo: DemoSummary | None) -> None:
    """Print the site's URL, the demo's logins and an example request."""
    console.print(f"\nHMI is running at [bold]{url}[/bold] (admin: {url}/admin/, API: {url}/api/docs/)")
    if demo is not None:
        console.print(_logins(demo))
        console.print(f"API key: {demo.api_key}\n", highlight=False)
        console.print(curl_line(url, demo), highlight=False, markup=False, soft_wrap=True)
    console.print("\nCtrl-C stops everything.")


def curl_line(url: str, demo: DemoSummary) -> str:
    """An infer request as a curl command."""
    body = json.dumps({"model": demo.model, "inputs": [demo.text]})
    return (
        f"curl -s {url}/api/v1/infer -H 'Authorization: Bearer {demo.api_key}' "
        f"-H 'Content-Type: application/json' -d {shlex.quote(body)}"
    )


def _logins(demo: DemoSummary) -> Table:
    table = Table("sign in as", "password", title="Demo logins", title_justify="left", box=None)
    for login in demo.logins:
        table.add_row(login.username, login.password or "(changed)")
    return table
