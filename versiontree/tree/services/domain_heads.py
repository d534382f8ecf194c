"""The newest version of a domain, where what the platform itself adds to a domain goes."""

from django.db import transaction

from tenants.base.errors import ErrorCode, HmiError, not_found
from versiontree.tree.models import Artifact, Domain, Version, VersionArtifact
from versiontree.tree.models.artifact import Role
from versiontree.tree.models.version import VersionKind, VersionState
from versiontree.tree.table_chains import compacted_by, without_compacted


def domain_head(*, domain: Domain) -> Version:
    """The newest ready version of a domain, whose row is locked until the transaction ends.

    Raises ``not_found``, ``conflict`` while a version is being built, ``model_not_ready`` when none is ready.
    """
    assert transaction.get_connection().in_atomic_block
    locked = Domain.unscoped.select_for_update(no_key=True).filter(pk=domain.pk).first()
    if locked is None:
        raise not_found("domain", param="domain")
    versions = Version.unscoped.filter(domain=locked).select_related("root", "tenant", "domain")
    building = versions.filter(state=VersionState.BUILDING).first()
    if building is not None:
        raise HmiError(
            ErrorCode.CONFLICT, f"Version {building.number} of {locked.name} is being built.", param="domain"
        )
    tip = versions.filter(state=VersionState.READY).order_by("-number").first()
    if tip is None:
        raise HmiError(
            ErrorCode.MODEL_NOT_READY, f"No version of the domain {locked.name} is ready.", param="domain"
        )
    return tip


def domain_tables(version: Version) -> list[tuple[Version, Artifact]]:
    """The tables of domains that are read for a version, nearest first; not those of the root."""
    branch: list[Version] = []
    node: Version | None = version
    while node is not None and node.kind == VersionKind.DOMAIN:
        branch.append(node)
        node = node.parent
    by_pk = {one.pk: one for one in branch}
    read = without_compacted(by_pk, {pk: compacted_by(one.config) for pk, one in by_pk.items()})
    links = VersionArtifact.unscoped.filter(version__in=read, role=Role.PLOT).select_related("artifact")
    tables = {link.version_id: link.artifact for link in links}
    return [(by_pk[pk], tables[pk]) for pk in read if pk in tables]


def nearest_lower(version: Version) -> Artifact:
    """The lower layers that a version's own table was made with."""
    node: Version | None = version
    while node is not None:
        link = VersionArtifact.unscoped.filter(version=node, role=Role.LOWER).first()
        if link is not None:
            return link.artifact
        node = node.parent
    raise AssertionError(f"nothing above version {version.pk} has lower layers")
