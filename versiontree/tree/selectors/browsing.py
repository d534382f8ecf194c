"""Summaries of versions and models for pages that browse the tree."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.fields.json import KT

from tenants.accounts.models import Tenant
from tenants.datasets.models import Task
from versiontree.tree.models import Alias, Hplm, RootKind, Version
from versiontree.tree.models.version import VersionKind
from versiontree.tree.selectors.versions import version_visibility

_COLUMNS = (
    "pk", "kind", "number", "state", "tenant_id", "root_id", "root__name", "root__kind", "root__retired_at",
    "domain_id", "domain__name", "hplm_id", "hplm__name", "hplm__task", "parent__number", "parent__hplm_id",
    "parent__domain_id", "parent__domain__name", "pointing", "metric", "value", "rows", "quick",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Branch:
    """The ids of a domain and its root, or of a root alone (``domain`` is None)."""

    root: int
    domain: int | None = None


@dataclass(frozen=True, slots=True)
class VersionSummary:
    """What lists show of a version. ``owner`` is the id of its root, domain or model.

    ``value`` is the ``metric`` on the ``rows`` of the test split. ``parent`` is the branch of the parent
    version, which is one of the same model if ``parent_is_hplm``.
    """

    pk: int
    kind: VersionKind
    root_kind: RootKind
    root_retired: bool
    owner: int
    name: str
    task: str
    number: int
    state: str
    quick: bool
    shared: bool
    aliases: tuple[str, ...]
    metric: str
    value: float | None
    rows: int | None
    branch: Branch
    parent: Branch
    parent_name: str
    parent_number: int | None
    parent_is_hplm: bool


def branch_summaries(tenant: Tenant) -> list[VersionSummary]:
    """The versions of all roots and of the domains that the tenant sees, oldest first. One query."""
    return _summaries(Version.unscoped.filter(version_visibility(tenant)).exclude(kind=VersionKind.HPLM))


def hplm_counts(tenant: Tenant) -> dict[Branch, int]:
    """The number of the tenant's models directly below each branch. One query."""
    first = _living_versions(tenant).filter(number=1).order_by()
    counted = first.values_list("root_id", "parent__domain_id").annotate(Count("pk"))
    return {Branch(root, domain): count for root, domain, count in counted}


def hplms_search(
    tenant: Tenant, *, words: str = "", branch: Branch | None = None, task: str = "", state: str = ""
) -> QuerySet[Hplm]:
    """The tenant's models by name. ``words`` are in the name, ``state`` is that of the newest version."""
    found = Hplm.objects.for_tenant(tenant).filter(deleted_at=None)
    if task:
        found = found.filter(task=task)
    if state:
        versions = Version.objects.for_tenant(tenant).filter(hplm=OuterRef("pk")).order_by("-number")
        found = found.annotate(newest=Subquery(versions.values("state")[:1])).filter(newest=state)
    if branch is not None:
        first = Version.objects.for_tenant(tenant).filter(
            hplm=OuterRef("pk"), number=1, root=branch.root, parent__domain=branch.domain
        )
        found = found.filter(pk__in=first.values("hplm"))
    for word in words.split():
        found = found.filter(name__icontains=word)
    return found.order_by("name")


def hplm_summaries(tenant: Tenant, hplms: Iterable[Hplm]) -> list[VersionSummary]:
    """The versions of these models, in the order of the models, oldest first. One query."""
    order = {hplm.pk: number for number, hplm in enumerate(hplms)}
    found = _summaries(_living_versions(tenant).filter(hplm__in=order))
    return sorted(found, key=lambda summary: order[summary.owner])


def _living_versions(tenant: Tenant) -> QuerySet[Version]:
    return Version.objects.for_tenant(tenant).filter(kind=VersionKind.HPLM, hplm__deleted_at=None)


def _summaries(versions: QuerySet[Version]) -> list[VersionSummary]:
    aliases = Alias.unscoped.filter(version=OuterRef("pk")).order_by("name").values("name")
    rows = versions.order_by("hplm__name", "domain__name", "root__name", "number").annotate(
        pointing=ArraySubquery(aliases),
        metric=KT("metrics__evaluate__metric"),
        value=KT("metrics__evaluate__value"),
        rows=KT("metrics__evaluate__rows"),
        quick=KT("config__quick"),
    )
    return [_summary(row) for row in rows.values(*_COLUMNS)]


def _summary(row: dict[str, Any]) -> VersionSummary:
    kind = VersionKind(row["kind"])
    return VersionSummary(
        pk=row["pk"],
        kind=kind,
        root_kind=RootKind(row["root__kind"]),
        root_retired=row["root__retired_at"] is not None,
        owner=row[f"{kind.owner_field}_id"],
        name=row[f"{kind.owner_field}__name"],
        task=Task(row["hplm__task"]).label if kind == VersionKind.HPLM else "",
        number=row["number"],
        state=row["state"],
        quick=row["quick"] == "true",
        shared=row["tenant_id"] is None,
        aliases=tuple(row["pointing"]),
        metric=row["metric"] or "",
        value=_number(row["value"]),
        rows=int(row["rows"]) if (row["rows"] or "").isdecimal() else None,
        branch=Branch(row["root_id"], row["domain_id"]),
        parent=Branch(row["root_id"], row["parent__domain_id"]),
        parent_name=row["parent__domain__name"] or row["root__name"],
        parent_number=row["parent__number"],
        parent_is_hplm=row["parent__hplm_id"] is not None,
    )


def _number(text: str | None) -> float | None:
    """The number in a report. None if it is missing or, in an imported report, not a number."""
    try:
        return float(text) if text else None
    except ValueError:
        return None
