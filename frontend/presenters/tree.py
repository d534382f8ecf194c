"""The version tree as nested nodes: root, its domains, their hPLMs, and the versions of those."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from django.urls import reverse

from frontend.presenters.version_page import version_url
from frontend.presenters.versions import VersionRow, version_row
from tenants.models import Tenant
from versiontree.models import Version
from versiontree.models.version import VersionKind

LABELS = {VersionKind.ROOT: "Root", VersionKind.DOMAIN: "Domain", VersionKind.HPLM: "hPLM"}


@dataclass(slots=True)
class Node:
    """A root, domain or hPLM with its versions (newest first) and what grows from it."""

    kind: str
    label: str
    name: str
    note: str
    shared: bool
    url: str
    versions: list[VersionRow] = field(default_factory=list)
    children: list["Node"] = field(default_factory=list)


def tree_of(tenant: Tenant, versions: Iterable[Version]) -> list[Node]:
    """The roots as nested nodes; `versions` are in tree order (a parent before its children)."""
    nodes: dict[tuple[str, int], Node] = {}
    by_version: dict[int, Node] = {}
    roots: list[Node] = []
    for version in versions:
        key = version.kind, version.owner.pk
        if key not in nodes:
            nodes[key] = _node(tenant, version)
            siblings = roots if version.parent_id is None else by_version[version.parent_id].children
            siblings.append(nodes[key])
        nodes[key].versions.insert(0, version_row(version))
        by_version[version.pk] = nodes[key]
    for node in nodes.values():
        node.children.sort(key=lambda child: (child.kind, child.name))
    return roots


def _node(tenant: Tenant, version: Version) -> Node:
    kind = VersionKind(version.kind)
    return Node(
        kind=kind.value,
        label=LABELS[kind],
        name=version.name,
        note=version.hplm.get_task_display() if version.hplm else "",
        shared=version.tenant_id is None,
        url=_url(tenant, version),
    )


def _url(tenant: Tenant, version: Version) -> str:
    if version.hplm is not None:
        return reverse("frontend:hplm", args=[tenant.slug, version.hplm.name])
    if version.domain_id is not None:
        return reverse("frontend:domain", args=[tenant.slug, version.domain_id])
    return version_url(tenant, version)
