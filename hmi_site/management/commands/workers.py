"""`manage.py workers`: the inference workers that have a heartbeat, and orders for them."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from redis.exceptions import RedisError

from hmi_site.dashboard.serving import ORDERS, worker_order
from inference.api.client import close_gateway
from inference.api.serving import serving_now
from tenants.base.errors import HmiError


class Command(BaseCommand):
    help = "List the inference workers; drain one or all, resume them, have them read the manifest again."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("what", choices=["list", *ORDERS])
        parser.add_argument("workers", nargs="*", help="their names; all of them where none is named")

    def handle(self, *_: Any, what: str, workers: list[str], **__: Any) -> None:
        try:
            alive = serving_now().workers
            if what == "list":
                for worker in alive:
                    roots = ", ".join(worker.roots) or "no root"
                    self.stdout.write(f"{worker.name}\t{worker.state}\t{worker.device}\t{roots}")
            for name in (workers or [worker.name for worker in alive]) if what in ORDERS else ():
                worker_order(worker=name, what=what, actor=None)
                self.stdout.write(f"{name} is {ORDERS[what]}.")
        except RedisError as error:
            raise CommandError("The queue cannot be reached.") from error
        except HmiError as error:
            raise CommandError(error.message) from error
        finally:
            close_gateway()
