"""``manage.py demo``: build the demo tree if absent, send real traffic, print the report."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser


class Command(BaseCommand):
    help = "Build the demo tree if absent, send infer requests of several tenants over HTTP, print a report."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--quick", action="store_true", help="send fewer requests")
        parser.add_argument("--json", metavar="FILE", help="write rows and figures to FILE")

    def handle(self, *args: Any, **options: Any) -> None:
        from benchmarks import demo_report

        argv = ["--quick"] if options["quick"] else []
        argv += ["--json", options["json"]] if options["json"] else []
        if demo_report.main(argv):
            raise CommandError("The demo did not end well: see the lines above.")
