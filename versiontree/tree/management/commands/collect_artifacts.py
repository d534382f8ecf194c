"""`manage.py collect_artifacts`: remove artifacts that no living version needs."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from versiontree.tree.services.garbage_collection import GRACE_S, artifacts_collect


class Command(BaseCommand):
    help = "Remove artifacts that no living version needs, and what ended jobs left behind."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--dry-run", action="store_true", help="say what would be removed, and remove nothing"
        )
        parser.add_argument(
            "--grace-hours",
            type=float,
            default=GRACE_S / 3600,
            help="keep what was made, or belongs to a model that was deleted, less than this ago"
            " (default: %(default)g)",
        )

    def handle(self, *_: Any, dry_run: bool, grace_hours: float, **__: Any) -> None:
        found = artifacts_collect(grace_s=grace_hours * 3600, dry_run=dry_run)
        verb = "Would remove" if dry_run else "Removed"
        for name in (*found.artifacts, *(f"the leftovers of job {job}" for job in found.staging)):
            self.stdout.write(f"{verb} {name}")
        self.stdout.write(f"{verb} {len(found.artifacts)} artifacts, {found.size / 2**20:.1f} MiB.")
