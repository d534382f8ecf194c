"""`manage.py import_version`: import a version that was exported."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from tenants.accounts.selectors import tenant_by_slug
from tenants.base.errors import HmiError
from versiontree.transfer.services.version_import import version_import
from versiontree.tree.selectors.versions import version_visible_to


class Command(BaseCommand):
    help = "Import a version that export_version, or a download, made: a folder or a zip file."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("archive", type=Path)
        parser.add_argument("--tenant", help="the slug of the tenant that gets it; without, the platform")
        parser.add_argument("--name", help="a new name; default: the old one")
        parser.add_argument("--parent", type=int, help="the id of the parent version, if several match")

    def handle(
        self, *_: Any, archive: Path, tenant: str | None, name: str | None, parent: int | None, **__: Any
    ) -> None:
        try:
            owner = tenant_by_slug(tenant) if tenant else None
            above = version_visible_to(owner, parent, param="parent") if parent else None
            made = version_import(archive=archive, tenant=owner, actor=None, name=name, parent=above)
        except HmiError as error:
            raise CommandError(error.message) from error
        self.stdout.write(f"{made} ({made.digest[:12]}) is ready.")
