"""`manage.py populate`: copy a model many times, for load tests."""

from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db.models import QuerySet
from rich.console import Console
from rich.progress import Progress

from demo.history import jobs_create, requests_create, usage_create
from demo.populate import copies_of, populate, statistics_gather
from tenants.accounts.models import Tenant
from tenants.accounts.selectors import tenant_by_slug
from tenants.accounts.services.tenants import tenant_create
from tenants.base.errors import HmiError
from versiontree.tree.models import Version
from versiontree.tree.resolution import resolve_model

SLUG = "populated"


class Command(BaseCommand):
    help = (
        "Create many copies of a model with different weights, to test a large installation. Also creates"
        " finished jobs, usage and entries of the request log."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("like", help="the model to copy, as tenant/name")
        parser.add_argument("--models", type=int, default=10_000, help="number of models (10,000)")
        parser.add_argument(
            "--tenants",
            type=int,
            default=1000,
            help=f"number of tenants that own them, named {SLUG}-1 and so on (1,000)",
        )
        parser.add_argument("--tenant", help="an existing tenant that owns all of them, instead")
        parser.add_argument("--jobs", type=int, default=1000, help="number of finished jobs (1,000)")
        parser.add_argument(
            "--usage",
            type=int,
            default=100_000,
            help="number of daily usage rows, and of logged requests (100,000)",
        )

    def handle(
        self,
        *_: Any,
        like: str,
        models: int,
        tenants: int,
        tenant: str | None,
        jobs: int,
        usage: int,
        **__: Any,
    ) -> None:
        if models < 1 or tenants < 1:
            raise CommandError("There must be at least one model and one tenant.")
        template = _version(like)
        numbers = range(1, min(tenants, models) + 1)
        owners = [_existing(tenant)] if tenant else [_numbered(number) for number in numbers]
        with Progress(console=Console(stderr=True)) as bar:
            task = bar.add_task("Models", total=models)
            populate(
                like=template,
                tenants=owners,
                count=models,
                progress=lambda done: bar.update(task, completed=done),
            )
        versions = list(_populated(owners, template))
        jobs_create(versions=versions, count=jobs)
        usage_create(versions=versions, count=usage)
        requests_create(versions=versions, count=usage)
        statistics_gather()
        owner = tenant or f"{len(owners)} tenants"
        self.stdout.write(f"Created {models} copies of {like} for {owner}.")


def _version(like: str) -> Version:
    try:
        found = resolve_model(tenant_by_slug(like.partition("/")[0]), like)
    except HmiError as error:
        raise CommandError(f"{like}: {error.message}") from error
    if found.hplm_id is None:
        raise CommandError(f"{like} is a base model. Name a model of a tenant.")
    ready = Version.unscoped.select_related("hplm")
    return ready.get(hplm_id=found.hplm_id, number=found.version_number)


def _populated(owners: Sequence[Tenant], like: Version) -> QuerySet[Version]:
    """All copies of these tenants, also those of earlier runs."""
    copies = Version.unscoped.filter(tenant__in=owners, hplm__name__regex=copies_of(like), number=1)
    return copies.select_related("hplm").order_by("pk")


def _existing(slug: str) -> Tenant:
    try:
        return tenant_by_slug(slug)
    except HmiError as error:
        raise CommandError(f"{slug}: {error.message}") from error


def _numbered(number: int) -> Tenant:
    slug = f"{SLUG}-{number}"
    return Tenant.objects.filter(slug=slug).first() or tenant_create(slug=slug, name=slug.title(), owner=None)
