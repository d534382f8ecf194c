"""`manage.py populate`: many hPLMs like one that is there."""

from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db.models import QuerySet
from rich.console import Console
from rich.progress import Progress

from hmi_site.demo.history import jobs_remember, usage_remember
from hmi_site.demo.populate import populate
from tenants.errors import HmiError
from tenants.models import Tenant
from tenants.selectors import tenant_by_slug
from tenants.services.tenants import tenant_create
from versiontree.models import Version
from versiontree.models.version import VersionKind
from versiontree.resolving import resolve_model

SLUG = "populated"


class Command(BaseCommand):
    help = (
        "Register many hPLMs like one that is there, each with numbers of its own: to try out how a large"
        " installation looks and serves. They get a past: jobs that are over, and usage."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("like", help="the hPLM to copy, as tenant/name")
        parser.add_argument("--hplms", type=int, default=10_000, help="how many (10,000)")
        parser.add_argument(
            "--tenants", type=int, default=1000, help=f"shared out over so many, called {SLUG}-1 and so on"
        )
        parser.add_argument("--jobs", type=int, default=1000, help="jobs of theirs that are over (1,000)")
        parser.add_argument("--usage", type=int, default=100_000, help="rows of usage, one a day (100,000)")

    def handle(self, *_: Any, like: str, hplms: int, tenants: int, jobs: int, usage: int, **__: Any) -> None:
        if hplms < 1 or tenants < 1:
            raise CommandError("There must be at least one hPLM and one tenant.")
        try:
            found = resolve_model(tenant_by_slug(like.partition("/")[0]), like)
        except HmiError as error:
            raise CommandError(f"{like}: {error.message}") from error
        template = Version.unscoped.select_related("hplm").get(
            hplm_id=found.hplm_id, number=found.version_number
        )
        owners = [_tenant(number) for number in range(1, min(tenants, hplms) + 1)]
        with Progress(console=Console(stderr=True)) as bar:
            task = bar.add_task("hPLMs", total=hplms)
            populate(
                like=template,
                tenants=owners,
                count=hplms,
                progress=lambda done: bar.update(task, completed=done),
            )
        versions = list(_versions(owners))
        jobs_remember(versions=versions, count=jobs)
        usage_remember(versions=versions, count=usage)
        self.stdout.write(f"{hplms} hPLMs like {like}, of {len(owners)} tenants, are registered and served.")


def _versions(owners: Sequence[Tenant]) -> QuerySet[Version]:
    """What was registered for these tenants, now or earlier."""
    mine = Version.unscoped.filter(tenant__in=owners, kind=VersionKind.HPLM, number=1)
    return mine.select_related("hplm").order_by("pk")


def _tenant(number: int) -> Tenant:
    slug = f"{SLUG}-{number}"
    return Tenant.objects.filter(slug=slug).first() or tenant_create(slug=slug, name=slug.title(), owner=None)
