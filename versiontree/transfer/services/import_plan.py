"""Plan an import: find the parent of the imported version, and create the missing versions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from django.db import IntegrityError, transaction

from tenants.accounts.models import Tenant
from tenants.audit.services import Actor, person
from tenants.base.errors import ErrorCode, HmiError
from tenants.usage.services.quotas import quota_check, quota_check_storage
from versiontree.artifact_store import ArtifactStore, StoredArtifact
from versiontree.names import MAX_NAME_LENGTH
from versiontree.transfer.archive.layout import (
    LOCAL_CONFIG_KEYS,
    Contents,
    Node,
    artifact_files,
    kind_of_root,
)
from versiontree.transfer.archive.metrics import imported_metrics
from versiontree.transfer.archive.reader import unpacked
from versiontree.tree.models import Domain, Hplm, Root, Version
from versiontree.tree.models.version import VersionKind, VersionState
from versiontree.tree.selectors.lineage import COMPACTS
from versiontree.tree.selectors.versions import version_visibility
from versiontree.tree.services.dry_run import dry_run
from versiontree.tree.services.quota_reservations import quota_reserve_hplm, quota_reserve_jobs
from versiontree.tree.services.version_completion import artifacts_attach, version_finish
from versiontree.tree.services.versions import parent_check, version_create

Owner = Root | Domain | Hplm
Made = TypeVar("Made", Root, Domain, Hplm)
Stored = Mapping[tuple[str, str], StoredArtifact]
"""Artifacts by their kind and digest."""


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """The `nodes` of an archive, nearest first, and the versions of this site that equal the last of them.

    These `known` versions are listed root first. `size` is the bytes of the missing nodes, without roots.
    """

    nodes: tuple[Node, ...]
    known: tuple[Version, ...]
    size: int

    @property
    def missing(self) -> tuple[Node, ...]:
        """The nodes to create, nearest first."""
        return self.nodes[: len(self.nodes) - len(self.known)]


def import_plan(contents: Contents, *, tenant: Tenant | None, parent: Version | None) -> ImportPlan:
    """Find the branch on this site. Raises ``missing_branch``, ``conflict``, ``invalid_field``."""
    nodes = contents.nodes
    levels = _levels(nodes[1:] if contents.version.kind == VersionKind.HPLM else nodes, tenant)
    ancestors = len(nodes) - 1
    if len(levels) == len(nodes):
        existing = levels[-1][0]
        raise HmiError(
            ErrorCode.CONFLICT, f"This version already exists: {existing.in_words}.", param="archive"
        )
    if parent is not None and (
        not ancestors or len(levels) < ancestors or parent not in levels[ancestors - 1]
    ):
        raise HmiError(
            ErrorCode.INVALID_FIELD,
            f"{parent.in_words} is not the parent of the archived version.",
            param="parent",
        )
    missing_ancestors = nodes[1 : len(nodes) - len(levels)]
    if missing_ancestors and not contents.branch:
        needed = ", ".join(node.in_words for node in reversed(missing_ancestors))
        raise HmiError(
            ErrorCode.MISSING_BRANCH,
            f"{contents.version.name} needs {needed}, which this installation does not have. "
            "Export the version including its base models, or import those first.",
            param="archive",
            details={"missing": [node.identity() for node in missing_ancestors]},
        )
    nearest = parent or (levels[-1][0] if levels else None)
    missing = nodes[: len(nodes) - len(levels)]
    return ImportPlan(nodes, tuple(reversed(_ancestors(nearest))), _size(contents, missing))


def _size(contents: Contents, nodes: Sequence[Node]) -> int:
    """Bytes of the artifacts of these nodes, without roots, which belong to no tenant."""
    owned = [node for node in nodes if node.kind != VersionKind.ROOT]
    artifacts = {pair for node in owned for pair in node.digests.items()}
    return sum(
        entry["size"]
        for kind, digest in artifacts
        for entry in artifact_files(contents.files, kind, digest).values()
    )


def import_dry_run(plan: ImportPlan, *, tenant: Tenant | None, actor: Actor, name: str | None) -> None:
    """Raise what ``import_apply`` would: ``quota_exceeded``, ``conflict`` (a name), ``model_not_ready``.

    Called before the archive is unpacked, checked and stored, which takes long and no transaction undoes.
    """
    dry_run(lambda: _prepare(plan, tenant, actor, name))


def import_store(plan: ImportPlan, *, store: ArtifactStore, folder: Path) -> Stored:
    """Move the artifacts of the missing nodes from `folder` into the store.

    Do not call it in a transaction: it reads and syncs every file. If the import fails later, the garbage
    collector removes the artifacts.
    """
    stored = {}
    for role, digest in dict.fromkeys(pair for node in plan.missing for pair in node.digests.items()):
        stored[role, digest] = store.ingest(role, unpacked(folder, role, digest))
        assert stored[role, digest].digest == digest, "every byte was compared with the manifest"
    return stored


def import_apply(
    plan: ImportPlan, *, stored: Stored, tenant: Tenant | None, actor: Actor, name: str | None
) -> Version:
    """Create the missing versions, root first, and return the imported one. Call it in a transaction.

    Raises as ``import_dry_run``.
    """
    known, owners = _prepare(plan, tenant, actor, name)
    versions = dict(zip(reversed(range(len(plan.nodes))), known, strict=False))
    version = known[-1] if known else None
    for index in reversed(range(len(plan.missing))):
        node, owner = plan.nodes[index], owners[index]
        version = version_create(
            owner=owner,
            root=owner if isinstance(owner, Root) else _root_of(version),
            parent=version,
            tenant=None if isinstance(owner, Root) else tenant,
            config=_config(node, versions),
            plans=[],
            actor=actor,
        )
        artifacts_attach(
            version=version, artifacts=[(role, stored[role, digest]) for role, digest in node.digests.items()]
        )
        version_finish(version=version, metrics=imported_metrics(node))
        version.refresh_from_db()
        versions[index] = version
    assert version is not None
    return version


def _levels(nodes: Sequence[Node], tenant: Tenant | None) -> list[list[Version]]:
    """For each node, root first, the identical ready versions of this site, until a node has none."""
    visible = version_visibility(tenant)
    levels: list[list[Version]] = []
    for node in reversed(nodes):
        rows = Version.unscoped.filter(visible, kind=node.kind, state=VersionState.READY, digest=node.digest)
        rows = rows.filter(parent__in=levels[-1]) if levels else rows.filter(parent=None)
        rows = rows.select_related("root", "domain__root", "tenant", "parent")
        same = [
            row
            for row in rows.prefetch_related("artifact_links__artifact").order_by("pk")
            if {link.role: link.artifact.digest for link in row.artifact_links.all()} == dict(node.digests)
        ]
        if not same:
            break
        levels.append(same)
    return levels


def _ancestors(version: Version | None) -> list[Version]:
    branch = []
    while version is not None:
        branch.append(version)
        version = version.parent
    return branch


def _prepare(
    plan: ImportPlan, tenant: Tenant | None, actor: Actor, name: str | None
) -> tuple[list[Version], dict[int, Owner]]:
    """Check quotas and the parent, and create the owners of the missing nodes.

    Returns the known versions, root first, and the owners by the index of their node.
    """
    _check_quotas(plan, tenant, name)
    known = list(plan.known)
    if known:
        known[-1] = parent_check(
            parent=known[-1], tenant=tenant, kinds=[VersionKind.ROOT, VersionKind.DOMAIN]
        )
    domains = Domain.objects.for_tenant(tenant).count() if tenant else 0
    owners = _owners(plan, known, tenant, actor, name)
    if tenant is not None:
        made = Domain.objects.for_tenant(tenant).count() - domains
        if made:
            quota_check(tenant=tenant, what="domains", having=domains, adding=made)
    return known, owners


def _check_quotas(plan: ImportPlan, tenant: Tenant | None, name: str | None) -> None:
    if tenant is None:
        return
    quota_reserve_jobs(tenant=tenant, adding=0)
    for node in plan.missing:
        if node.kind == VersionKind.HPLM:
            quota_reserve_hplm(tenant=tenant, name=name or node.name)
    quota_check_storage(tenant=tenant, adding_bytes=plan.size)


def _owners(
    plan: ImportPlan, known: Sequence[Version], tenant: Tenant | None, actor: Actor, name: str | None
) -> dict[int, Owner]:
    """The owner of each missing node by the node's index, root first."""
    owners: dict[int, Owner] = {}
    parent = known[-1].owner if known else None
    for index in reversed(range(len(plan.missing))):
        above = plan.nodes[index + 1] if parent is not None else None
        new_name = name if index == 0 else None
        parent = _owner(plan.nodes[index], above, parent, tenant, actor, new_name=new_name)
        owners[index] = parent
    return owners


def _owner(
    node: Node,
    above: Node | None,
    parent: Owner | None,
    tenant: Tenant | None,
    actor: Actor,
    *,
    new_name: str | None,
) -> Owner:
    """A new owner, or the parent's owner if both versions are of the same root or domain."""
    same_owner = above is not None and (above.kind, above.name) == (node.kind, node.name) and new_name is None
    by = person(actor)
    if node.kind == VersionKind.HPLM:
        terms = {"task": node.task, "license": node.license, "description": node.description}
        return _create(Hplm, new_name or node.name, tenant=tenant, created_by=by, **terms)
    if node.kind == VersionKind.ROOT:
        if isinstance(parent, Root) and same_owner:
            # Locked because `version_create` counts the versions of its owner.
            return Root.objects.select_for_update(no_key=True).get(pk=parent.pk)
        source = node.source_url or f"imported:{node.digest}"
        about = {
            "kind": kind_of_root(node.digests),
            "source": source,
            "license": node.license,
            "source_url": node.source_url,
        }
        taken = set(Root.objects.values_list("name", flat=True))
        return _create(Root, new_name or _free_name(node.name, taken), created_by=by, **about)
    if isinstance(parent, Domain) and same_owner and parent.tenant == tenant:
        return Domain.unscoped.select_for_update(no_key=True).get(pk=parent.pk)
    assert isinstance(parent, Root | Domain), "the parent of a domain is a root or domain"
    branch = {"root": parent.root if isinstance(parent, Domain) else parent, "tenant": tenant}
    taken = set(Domain.unscoped.filter(**branch).values_list("name", flat=True))
    name = new_name or _free_name(node.name, taken)
    return _create(Domain, name, description=node.description, created_by=by, **branch)


def _create(model: type[Made], name: str, **columns: Any) -> Made:
    try:
        with transaction.atomic():
            return model._base_manager.create(name=name, **columns)
    except IntegrityError as error:
        raise HmiError(
            ErrorCode.CONFLICT,
            f"A {model._meta.verbose_name} named {name!r} already exists. Choose another name.",
            param="name",
        ) from error


def _free_name(name: str, taken: set[str]) -> str:
    """The name, with a number appended if it is taken."""
    free, number = name, 2
    while free in taken:
        ending = f"-{number}"
        free, number = name[: MAX_NAME_LENGTH - len(ending)].rstrip("-") + ending, number + 1
    return free


def _root_of(version: Version | None) -> Root:
    assert version is not None, "a branch begins with a root"
    return version.root


def _config(node: Node, versions: Mapping[int, Version]) -> dict[str, Any]:
    """The node's config with ids of this site instead of indexes, and with its origin."""
    merged = [versions[index].pk for index in node.config.get(COMPACTS, ())]
    left_out = LOCAL_CONFIG_KEYS | {COMPACTS}
    config = {name: value for name, value in node.config.items() if name not in left_out}
    origin = {"name": node.name, "number": node.number}
    return config | ({COMPACTS: merged} if merged else {}) | {"imported": origin}
