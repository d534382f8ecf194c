"""`manage.py demo`: build, remove or rebuild the demo of a running installation."""

from argparse import ArgumentParser
from typing import Any, Final

from django.core.management.base import BaseCommand

from demo.options import DemoOptions, add_demo_arguments
from demo.record.models import Goal
from demo.record.selectors import demo_status
from demo.record.services import demo_request

GOALS: Final = {"build": Goal.BUILT, "remove": Goal.REMOVED, "rebuild": Goal.REBUILT}
STARTED: Final = "The running installation does it in the background; `manage.py demo status` says how it is."


class Command(BaseCommand):
    """Asks the workers of a running installation; it waits for nothing."""

    help = "Build the demo, remove it, or both; removal keeps what people made. Needs a running installation."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The options of the command."""
        parser.add_argument("command", choices=[*GOALS, "status"])
        # Without any of these, those of the last time apply.
        add_demo_arguments(parser)

    def handle(self, *_: Any, command: str, **options: Any) -> None:
        """Exit status 0 once it is asked for."""
        if command == "status":
            status = demo_status()
            self.stdout.write(f"{status.state}{f': {status.error}' if status.error else ''}")
            return
        given = DemoOptions.of(options)
        demo_request(goal=GOALS[command], actor=None, options=None if given == DemoOptions() else given)
        self.stdout.write(STARTED)
