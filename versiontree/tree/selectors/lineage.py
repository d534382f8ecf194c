"""Dependents and ancestors of versions: what builds on them, and which artifacts and tables they read."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db.models import Count, Prefetch, Q, QuerySet
from tree_queries.query import TreeQuerySet

from tenants.accounts.models import Tenant
from tenants.base.plurals import counted
from versiontree.tree.models import Artifact, Domain, Hplm, Root, Version, VersionArtifact
from versiontree.tree.models.artifact import Role
from versiontree.tree.models.version import VersionKind


def versions_with_tree_fields() -> TreeQuerySet:
    """All versions with ``tree_path`` and ``tree_depth``."""
    return TreeQuerySet(model=Version).with_tree_fields()


def _ids_from_root(version: Version) -> list[int]:
    """The ids of the version and its ancestors, root first. One query."""
    branch = Q(root=version.root_id) & (Q(hplm=None) | Q(hplm=version.hplm_id))
    path: list[int] = versions_with_tree_fields().tree_filter(branch).get(pk=version.pk).tree_path
    return path


@dataclass(frozen=True, slots=True)
class Dependents:
    """Dependents of a domain or root: the first domains and models by name, and the totals."""

    domains: tuple[Domain, ...]
    hplms: tuple[Hplm, ...]
    domain_count: int
    hplm_count: int
    tenant_count: int
    """Tenants that own these models."""

    @property
    def in_words(self) -> str:
        """The totals: "2 domains, and 12 models of 3 tenants"."""
        models = f"{counted(self.hplm_count, 'model')} of {counted(self.tenant_count, 'tenant')}"
        return f"{counted(self.domain_count, 'domain')}, and {models}"


def dependents_of(owner: Domain | Root, *, shown: int = 0) -> Dependents:
    """Direct dependents of all its versions, with at most ``shown`` domains and models. Six queries."""
    domains, hplms = dependent_domains(owner), dependent_hplms(owner)
    counts = hplms.aggregate(hplms=Count("pk"), tenants=Count("tenant", distinct=True))
    return Dependents(
        domains=tuple(domains.select_related("root", "tenant").order_by("name", "tenant__slug")[:shown]),
        hplms=tuple(hplms.select_related("tenant").order_by("tenant__slug", "name")[:shown]),
        domain_count=domains.count(),
        hplm_count=counts["hplms"],
        tenant_count=counts["tenants"],
    )


def dependents_below(root: int, *, tenant: Tenant | None = None) -> Dependents:
    """The totals of all domains and models below the root with this id, direct or not; of ``tenant`` alone
    if it is given. Two queries."""
    versions = Version.unscoped.filter(root=root, kind=VersionKind.HPLM)
    hplms = Hplm.unscoped.filter(deleted_at=None, pk__in=versions.order_by().values("hplm"))
    domains = Domain.unscoped.filter(root=root)
    if tenant is not None:
        hplms, domains = hplms.filter(tenant=tenant), domains.filter(tenant=tenant)
    counts = hplms.aggregate(hplms=Count("pk"), tenants=Count("tenant", distinct=True))
    return Dependents((), (), domains.count(), counts["hplms"], counts["tenants"])


def dependent_domains(owner: Domain | Root) -> QuerySet[Domain]:
    """The domains whose parent is any version of it."""
    return Domain.unscoped.filter(
        pk__in=_first_versions(owner).filter(kind=VersionKind.DOMAIN).values("domain")
    )


def dependent_hplms(owner: Domain | Root) -> QuerySet[Hplm]:
    """The models, not deleted, whose parent is any version of it."""
    return Hplm.unscoped.filter(deleted_at=None, pk__in=_first_versions(owner).values("hplm"))


def _first_versions(owner: Domain | Root) -> QuerySet[Version]:
    here = Q(domain=owner) if isinstance(owner, Domain) else Q(kind=VersionKind.ROOT, root=owner)
    # Their ids, as a join with all versions of thousands of models takes several times as long.
    parents = list(Version.unscoped.filter(here).values_list("pk", flat=True))
    return Version.unscoped.filter(parent__in=parents, number=1)


@dataclass(frozen=True, slots=True)
class LineageStep:
    """One version of a branch with the artifacts that its jobs made, by role."""

    version: Version
    artifacts: dict[str, Artifact]

    @property
    def size(self) -> int:
        """Bytes of its artifacts."""
        return sum(artifact.size for artifact in self.artifacts.values())


def lineage_of(version: Version) -> Sequence[LineageStep]:
    """The version and its ancestors up to the root. Three queries for any length."""
    path = _ids_from_root(version)
    links = VersionArtifact.unscoped.select_related("artifact").order_by("role")
    rows = Version.unscoped.filter(pk__in=path).select_related(
        "root", "domain__root", "hplm__tenant", "tenant", "dataset", "corpus"
    )
    versions = {row.pk: row for row in rows.prefetch_related(Prefetch("artifact_links", queryset=links))}
    return [_step(versions[pk]) for pk in reversed(path)]


def _step(version: Version) -> LineageStep:
    return LineageStep(version, {link.role: link.artifact for link in version.artifact_links.all()})


COMPACTS: Final = "compacts"
"""The key in a version's config that lists the ids of the versions merged into its table."""


FIRST_MODEL: Final = "first_model"
"""The key in the config of a root's version that asks for a model of the checkpoint's task head:
``{"tenant", "name", "pairs"}``, the id of the tenant, the model's name, and whether its inputs have two
texts."""
FROM_CHECKPOINT: Final = "from_checkpoint"
"""The key in the config of a model's version that is true if its head came with the root's checkpoint."""


BY_PLATFORM: Final = {"by": "platform"}
REBASE: Final = "rebase"
"""The key in the config of a rebased version: ``{"id", "version", "onto"}``, the id and number of the version
of the same model that it took its PET from, and the name of its parent; and ``BY_PLATFORM`` if no member of
the tenant asked for it.

In the metrics of its fine-tuning: ``{"trained", "rows", "metric", "old", "new", "p_value"}``, the comparison
of that PET on both parents on dev rows, and whether it was trained further."""


def rebased_from(version: Version) -> Version | None:
    """The version whose PET a rebased version took; None if it is no rebase. At most one query."""
    if REBASE not in version.config:
        return None
    return Version.unscoped.filter(hplm=version.hplm_id, pk=version.config[REBASE]["id"]).first()


def compacted_versions(config: Mapping[str, Any]) -> list[int]:
    """The ids of the versions merged into the table of a version with this config."""
    return list(config.get(COMPACTS, ()))


def without_compacted(branch: Iterable[int], compacts: Mapping[int, Collection[int]]) -> list[int]:
    """The versions of a branch, nearest first, without those merged into a nearer compacted table.

    ``compacts`` lists, for each version with a compacted table, the versions merged into it. Answers are the
    same, but fewer tables are searched.
    """
    merged: set[int] = set()
    remaining = []
    for pk in branch:
        if pk in merged:
            continue
        merged.update(compacts.get(pk, ()))
        remaining.append(pk)
    return remaining


@dataclass(frozen=True, slots=True)
class BuildInputs:
    """The input artifacts of a version's jobs. ``hplm`` and ``cascade`` are its own, ``start_from`` that of
    the version that it was rebased from, or else its parent's. Most versions have no ``cascade``: their
    profile is part of ``hplm``."""

    root: Artifact | None
    lower: Artifact | None
    plots: tuple[Artifact, ...]
    hplm: Artifact | None
    cascade: Artifact | None
    start_from: Artifact | None


def build_inputs(version: Version) -> BuildInputs:
    """The artifacts that this version's jobs read. Those not built yet are None.

    ``plots`` are those of the version and its ancestors, nearest first, without compacted ones.
    """
    links = _links_upwards(version)
    read = without_compacted(
        dict.fromkeys(link.version_id for link in links),
        {link.version_id: compacted_versions(link.version.config) for link in links},
    )

    def nearest(role: str) -> Artifact | None:
        return next((link.artifact for link in links if link.role == role), None)

    own = {link.role: link.artifact for link in links if link.version_id == version.pk}
    source = rebased_from(version)
    above = links if source is None else _links_upwards(source)
    before = source.pk if source else version.parent_id
    start = [
        link.artifact
        for link in above
        if link.role == Role.HPLM and link.version_id == before and link.version.kind == VersionKind.HPLM
    ]
    return BuildInputs(
        root=nearest("root"),
        lower=nearest("lower"),
        plots=tuple(link.artifact for link in links if link.role == "plot" and link.version_id in read),
        hplm=own.get("hplm"),
        cascade=own.get("cascade"),
        start_from=start[0] if start else None,
    )


def _links_upwards(version: Version) -> list[VersionArtifact]:
    """The artifacts of the version and its ancestors, nearest first. Two queries."""
    path = _ids_from_root(version)
    distance = {pk: steps for steps, pk in enumerate(reversed(path))}
    links = VersionArtifact.unscoped.filter(version__in=path).select_related("artifact", "version")
    return sorted(links, key=lambda link: distance[link.version_id])


def domain_tables(version: Version) -> list[tuple[Version, Artifact]]:
    """The tables of domains that a version reads, nearest first, without the root's."""
    branch: list[Version] = []
    node: Version | None = version
    while node is not None and node.kind == VersionKind.DOMAIN:
        branch.append(node)
        node = node.parent
    by_pk = {one.pk: one for one in branch}
    read = without_compacted(by_pk, {pk: compacted_versions(one.config) for pk, one in by_pk.items()})
    links = VersionArtifact.unscoped.filter(version__in=read, role=Role.PLOT).select_related("artifact")
    tables = {link.version_id: link.artifact for link in links}
    return [(by_pk[pk], tables[pk]) for pk in read if pk in tables]


def nearest_lower(version: Version) -> Artifact:
    """The lower layers of the version or its nearest ancestor that has some."""
    node: Version | None = version
    while node is not None:
        link = VersionArtifact.unscoped.filter(version=node, role=Role.LOWER).first()
        if link is not None:
            return link.artifact
        node = node.parent
    raise AssertionError(f"nothing above version {version.pk} has lower layers")
