"""`manage.py add_root`: download a known checkpoint and register it as a root."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from tenants.base.errors import HmiError
from versiontree.transfer.services.published_checkpoints import PUBLISHED, published_root_register


class Command(BaseCommand):
    """Returns once the root is registered; the workers of a running installation convert it."""

    help = "Download a known checkpoint from the package index and register it as a root."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The options of the command."""
        parser.add_argument("checkpoint", choices=list(PUBLISHED))
        parser.add_argument("--name", default="", help="the root's name; default: the checkpoint's")
        parser.add_argument(
            "--corpus",
            default="",
            help="the name of a corpus of the platform; default: that of the newest encoder root",
        )

    def handle(self, *_: Any, checkpoint: str, name: str, corpus: str, **__: Any) -> None:
        """Exit status 0 once it is registered."""
        try:
            version = published_root_register(
                checkpoint=checkpoint, actor=None, name=name, corpus=corpus, progress=self.stdout.write
            )
        except HmiError as error:
            raise CommandError(error.message) from error
        page = f"/admin/tree/root/{version.root_id}/change/"
        self.stdout.write(
            f"{version.root.name} is registered. Its jobs are queued; {page} shows how far they are."
        )
