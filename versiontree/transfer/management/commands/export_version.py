"""`manage.py export_version`: write a version as a folder or a zip file."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from tenants.accounts.selectors import tenant_by_slug
from tenants.base.errors import HmiError
from versiontree.transfer.services.version_export import version_export
from versiontree.tree.resolution import resolve_model
from versiontree.tree.selectors.versions import hplm_of, hplm_version, version_visible_to


class Command(BaseCommand):
    help = "Export a version: a new folder, or a zip file if the name ends in .zip."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "version",
            help="the id of a version; with --tenant also name, name@alias or name:number of a model",
        )
        parser.add_argument("out", type=Path)
        parser.add_argument("--tenant", help="the slug of the tenant; without, versions of the platform")
        parser.add_argument("--branch", action="store_true", help="include its domains and root")

    def handle(self, *_: Any, version: str, out: Path, tenant: str | None, branch: bool, **__: Any) -> None:
        try:
            owner = tenant_by_slug(tenant) if tenant else None
            if version.isdecimal() or owner is None:
                if not version.isdecimal():
                    raise CommandError("Give the id of a version, or --tenant for a model.")
                found = version_visible_to(owner, int(version))
            else:
                resolved = resolve_model(owner, version)
                found = hplm_version(hplm_of(owner, resolved.model_name), resolved.version_number)
            version_export(version=found, out=out, actor=None, branch=branch)
        except HmiError as error:
            raise CommandError(error.message) from error
        self.stdout.write(f"{found} ({found.digest[:12]}) is in {out}.")
