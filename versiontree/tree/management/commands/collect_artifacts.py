"""`manage.py collect_artifacts`: remove artifacts that no live version needs."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from versiontree.tree.services.garbage_collection import GRACE_S, artifacts_collect


class Command(BaseCommand):
    help = "Remove artifacts that no live version needs, and staging folders of ended jobs."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--dry-run", action="store_true", help="list what would be removed, and remove nothing"
        )
        parser.add_argument(
            "--grace-hours",
            type=float,
            default=GRACE_S / 3600,
            help="keep artifacts, and those of deleted models, that are more recent than this"
            " (default: %(default)g)",
        )

    def handle(self, *_: Any, dry_run: bool, grace_hours: float, **__: Any) -> None:
        report = artifacts_collect(grace_s=grace_hours * 3600, dry_run=dry_run)
        verb = "Would remove" if dry_run else "Removed"
        for name in (*report.artifacts, *(f"the staging folder of job {job}" for job in report.staging)):
            self.stdout.write(f"{verb} {name}")
        self.stdout.write(f"{verb} {len(report.artifacts)} artifacts, {report.size / 2**20:.1f} MiB.")
