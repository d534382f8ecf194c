"""What a search over the models, data, jobs and pages of a tenant finds."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from django.urls import reverse

from frontend.access import TenantAccess
from frontend.presenters.navigation import navigation_of
from tenants.accounts.models import Tenant
from tenants.datasets.models import Task
from tenants.datasets.selectors.previews import search_by_name
from tenants.datasets.selectors.uploads import corpora_of, datasets_of
from versiontree.jobs.selectors import jobs_search
from versiontree.tree.selectors.browsing import hplms_search

SHOWN: Final = 5
"""Of each kind."""


@dataclass(frozen=True, slots=True)
class Hit:
    """Something with the words in its name, and its page."""

    name: str
    note: str
    url: str


@dataclass(frozen=True, slots=True)
class HitGroup:
    """What was found of one kind."""

    label: str
    hits: list[Hit]


def search_results(access: TenantAccess, words: str) -> list[HitGroup]:
    """Return what has all the words in its name, by kind. Without words only the pages. Four queries."""
    groups = [HitGroup("Pages", list(_pages(access, words)))]
    if words:
        tenant = access.tenant
        groups = [
            HitGroup("Models", list(_models(tenant, words))),
            HitGroup("Data", list(_data(tenant, words))),
            HitGroup("Jobs", list(_jobs(tenant, words))),
            *groups,
        ]
    return [group for group in groups if group.hits]


def _pages(access: TenantAccess, words: str) -> Iterable[Hit]:
    wanted = words.lower().split()
    for group in navigation_of(access):
        for page in group.pages:
            if all(word in page.label.lower() for word in wanted):
                yield Hit(
                    page.label, group.label, reverse(f"frontend:{page.name}", args=[access.tenant.slug])
                )


def _models(tenant: Tenant, words: str) -> Iterable[Hit]:
    for model in hplms_search(tenant, words=words).order_by("name")[:SHOWN]:
        yield Hit(
            model.name, Task(model.task).label, reverse("frontend:model", args=[tenant.slug, model.name])
        )


def _data(tenant: Tenant, words: str) -> Iterable[Hit]:
    for dataset in search_by_name(datasets_of(tenant), words=words)[:SHOWN]:
        yield Hit(dataset.name, "Dataset", reverse("frontend:dataset", args=[tenant.slug, dataset.pk]))
    for corpus in search_by_name(corpora_of(tenant), words=words)[:SHOWN]:
        yield Hit(corpus.name, "Corpus", reverse("frontend:corpus", args=[tenant.slug, corpus.pk]))


def _jobs(tenant: Tenant, words: str) -> Iterable[Hit]:
    for job in jobs_search(tenant, words=words)[:SHOWN]:
        name = f"{job.version.name} v{job.version.number}"
        note = f"{job.get_kind_display()}, {job.get_state_display().lower()}"
        yield Hit(name, note, reverse("frontend:job", args=[tenant.slug, job.pk]))
