"""Who stands on a domain: what would have to look for other ground if it were no more."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count, Prefetch, Q, QuerySet
from tree_queries.query import TreeQuerySet

from versiontree.tree.models import Artifact, Domain, Hplm, Root, Version, VersionArtifact
from versiontree.tree.models.version import VersionKind


@dataclass(frozen=True, slots=True)
class Dependents:
    """What grows directly from a domain or a root: the first of the domains and of the living models by name,
    and how many of each there are in all."""

    domains: tuple[Domain, ...]
    hplms: tuple[Hplm, ...]
    domain_count: int
    hplm_count: int
    tenant_count: int
    """So many have these models."""


def dependents_of(owner: Domain | Root, *, shown: int = 0) -> Dependents:
    """What grows directly from any version of it; at most ``shown`` of each kind are named. Four queries."""
    domains, hplms = domains_on(owner), hplms_on(owner)
    counts = hplms.aggregate(hplms=Count("pk"), tenants=Count("tenant", distinct=True))
    return Dependents(
        domains=tuple(domains.select_related("root", "tenant").order_by("name", "tenant__slug")[:shown]),
        hplms=tuple(hplms.select_related("tenant").order_by("tenant__slug", "name")[:shown]),
        domain_count=domains.count(),
        hplm_count=counts["hplms"],
        tenant_count=counts["tenants"],
    )


def domains_on(owner: Domain | Root) -> QuerySet[Domain]:
    """The domains that grow directly from any version of it."""
    return Domain.unscoped.filter(pk__in=_first_on(owner).filter(kind=VersionKind.DOMAIN).values("domain"))


def hplms_on(owner: Domain | Root) -> QuerySet[Hplm]:
    """The living models that grow directly from any version of it."""
    return Hplm.unscoped.filter(deleted_at=None, pk__in=_first_on(owner).values("hplm"))


def _first_on(owner: Domain | Root) -> QuerySet[Version]:
    here = (
        Q(parent__domain=owner) if isinstance(owner, Domain) else Q(parent__kind="root", parent__root=owner)
    )
    return Version.unscoped.filter(here, number=1)


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
    """The version, its parent and so on up to the root; three queries for any length."""
    branch = TreeQuerySet(model=Version).with_tree_fields()
    found = branch.tree_filter(Q(root=version.root_id) & (Q(hplm=None) | Q(hplm=version.hplm_id)))
    path: list[int] = found.get(pk=version.pk).tree_path
    links = VersionArtifact.unscoped.select_related("artifact").order_by("role")
    rows = Version.unscoped.filter(pk__in=path).select_related(
        "root", "domain__root", "hplm__tenant", "tenant", "dataset", "corpus"
    )
    versions = {row.pk: row for row in rows.prefetch_related(Prefetch("artifact_links", queryset=links))}
    return [_step(versions[pk]) for pk in reversed(path)]


def _step(version: Version) -> LineageStep:
    return LineageStep(version, {link.role: link.artifact for link in version.artifact_links.all()})
