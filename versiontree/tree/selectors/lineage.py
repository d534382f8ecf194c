"""A version with all it stands on: the branch from it up to its root."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Prefetch, Q
from tree_queries.query import TreeQuerySet

from versiontree.tree.models import Artifact, Version, VersionArtifact


@dataclass(frozen=True, slots=True)
class Step:
    """One version of a branch with the artifacts that its jobs made, by role."""

    version: Version
    artifacts: dict[str, Artifact]

    @property
    def size(self) -> int:
        """Bytes of its artifacts."""
        return sum(artifact.size for artifact in self.artifacts.values())


def lineage_of(version: Version) -> Sequence[Step]:
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


def _step(version: Version) -> Step:
    return Step(version, {link.role: link.artifact for link in version.artifact_links.all()})
