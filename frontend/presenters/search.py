"""What a search over the models, data, jobs, pages, actions and help finds."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from django.urls import reverse

from frontend import help_chapters
from frontend.access import TenantAccess
from frontend.glossary import terms_found
from frontend.presenters.navigation import navigation_of
from tenants.accounts.models import Role, Tenant
from tenants.datasets.models import Task
from tenants.datasets.selectors.previews import search_by_name
from tenants.datasets.selectors.uploads import corpora_of, datasets_of
from versiontree.jobs.selectors import jobs_search
from versiontree.tree.selectors.browsing import hplms_search

SHOWN: Final = 5
"""Of each kind."""


@dataclass(frozen=True, slots=True)
class Hit:
    """Something with the words in its name, and its page. `theme` is the one that it chooses instead."""

    name: str
    note: str
    url: str = ""
    theme: str = ""


@dataclass(frozen=True, slots=True)
class Action:
    """Something to do, by the URL name and the query of the page where it is done. `words` also find it."""

    label: str
    words: str
    page: str
    query: str = ""
    role: Role = Role.DEVELOPER


ACTIONS: Final = (
    Action("Upload a dataset", "csv file labels new data", "dataset_new"),
    Action("Upload a corpus", "text file new data", "corpus_new"),
    Action("Train a new model", "create fine-tune", "model_new"),
    Action("Create a domain", "new train", "domain_new"),
    Action("Roll back a model", "rollback undo revert previous version", "models"),
    Action("Import a model", "archive adapter lora", "version_import"),
    Action("Create an API key", "new token", "keys"),
    Action("Process a file of texts", "batch csv", "batches"),
    Action("Create a webhook", "new notify", "webhooks"),
    Action("See why requests failed", "errors refused", "requests", "?status=refused", Role.VIEWER),
    Action("Invite a member", "add user people", "members", role=Role.OWNER),
    Action("Export all data", "takeout download backup", "takeouts", role=Role.OWNER),
)
THEMES: Final = {"dark": "Dark theme", "light": "Light theme", "": "Theme of the system"}


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
            HitGroup("Actions", list(_actions(access, words))),
            *groups,
            HitGroup("Help", list(_help(words))),
        ]
    return [group for group in groups if group.hits]


def _actions(access: TenantAccess, words: str) -> Iterable[Hit]:
    own = Role(access.membership.role)
    for action in ACTIONS:
        if own.includes(action.role) and _has_all(f"{action.label} {action.words}", words):
            yield Hit(
                action.label, "", reverse(f"frontend:{action.page}", args=[access.tenant.slug]) + action.query
            )
    for theme, label in THEMES.items():
        if _has_all(f"{label} colors mode", words):
            yield Hit(label, "", theme=theme or "system")


def _help(words: str) -> Iterable[Hit]:
    for term in terms_found(words):
        yield Hit(term.word, term.meaning, reverse("frontend:help_glossary") + f"#{term.anchor}")
    for hit in help_chapters.search(words, SHOWN, titles_only=True):
        yield Hit(hit.title, hit.chapter.title, hit.url)


def _has_all(text: str, words: str) -> bool:
    """Whether each of the words begins a word of the text."""
    parts = text.lower().split()
    return all(any(part.startswith(word) for part in parts) for word in words.lower().split())


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
