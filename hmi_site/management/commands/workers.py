"""`manage.py workers`: list, drain, resume and refresh inference workers."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from redis.exceptions import RedisError

from hmi_site.dashboard.serving import COMMANDS, worker_command
from inference.api.admission import close_gateway
from inference.api.serving import serving_now
from tenants.base.errors import HmiError


class Command(BaseCommand):
    help = "List the inference workers, or drain, resume or refresh some or all of them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("command", choices=["list", *COMMANDS])
        parser.add_argument("workers", nargs="*", help="names of workers (default: all)")

    def handle(self, *_: Any, command: str, workers: list[str], **__: Any) -> None:
        try:
            alive = serving_now().workers
            if command == "list":
                for worker in alive:
                    roots = ", ".join(worker.roots) or "no root"
                    self.stdout.write(f"{worker.name}\t{worker.state}\t{worker.device}\t{roots}")
            for name in (workers or [worker.name for worker in alive]) if command in COMMANDS else ():
                worker_command(worker=name, command=command, actor=None)
                self.stdout.write(f"{name} is {COMMANDS[command]}.")
        except RedisError as error:
            raise CommandError("The queue cannot be reached.") from error
        except HmiError as error:
            raise CommandError(error.message) from error
        finally:
            close_gateway()
