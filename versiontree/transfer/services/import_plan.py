"""Where an imported version belongs in the tree, and planting what is missing of its branch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from django.db import IntegrityError, transaction

from tenants.accounts.models import Tenant
from tenants.audit.services import Actor, person
from tenants.base.errors import ErrorCode, HmiError
from tenants.usage.services.quotas import quota_check_domains, quota_check_storage
from versiontree.artifact_store import ArtifactStore, StoredArtifact
from versiontree.names import MAX_NAME_LENGTH
from versiontree.transfer.archive.layout import Contents, Node, artifact_files
from versiontree.transfer.archive.reader import unpacked
from versiontree.tree.models import Domain, Hplm, Root, Version
from versiontree.tree.models.version import VersionKind, VersionState
from versiontree.tree.selectors.lineage import COMPACTS
from versiontree.tree.selectors.versions import artifact_bytes, version_visibility
from versiontree.tree.services.quota_reservations import quota_reserve_hplm, quota_reserve_jobs
from versiontree.tree.services.version_completion import artifacts_attach, version_finish
from versiontree.tree.services.versions import parent_check, version_create

Owner = Root | Domain | Hplm
Made = TypeVar("Made", Root, Domain, Hplm)
Stored = Mapping[tuple[str, str], StoredArtifact]
"""Artifacts by their kind and digest."""


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """`nodes` of the archive, nearest first. The last ones are here already, as `known`, the root first;
    those before them are to be planted, and have `size` bytes less those of roots."""

    nodes: tuple[Node, ...]
    known: tuple[Version, ...]
    size: int

    @property
    def missing(self) -> tuple[Node, ...]:
        """What is to be planted, nearest first."""
        return self.nodes[: len(self.nodes) - len(self.known)]


def import_plan(contents: Contents, *, tenant: Tenant | None, parent: Version | None) -> ImportPlan:
    """Find what is here of the branch. Raises ``missing_branch``, ``conflict`` and ``invalid_field``."""
    nodes = contents.nodes
    levels = _levels(nodes[1:] if contents.version.kind == VersionKind.HPLM else nodes, tenant)
    above = len(nodes) - 1
    if len(levels) == len(nodes):
        here = levels[-1][0]
        raise HmiError(ErrorCode.CONFLICT, f"{here.in_words} is the same.", param="archive")
    if parent is not None and (not above or len(levels) < above or parent not in levels[above - 1]):
        raise HmiError(
            ErrorCode.INVALID_FIELD, f"{parent.in_words} is not what the archive stands on.", param="parent"
        )
    lacking = nodes[1 : len(nodes) - len(levels)]
    if lacking and not contents.branch:
        needed = ", ".join(node.in_words for node in reversed(lacking))
        raise HmiError(
            ErrorCode.MISSING_BRANCH,
            f"{contents.version.name} needs {needed}, which is not on this site. "
            "Export it with its branch, or import that first.",
            param="archive",
            details={"missing": [node.identity() for node in lacking]},
        )
    nearest = parent or (levels[-1][0] if levels else None)
    missing = nodes[: len(nodes) - len(levels)]
    return ImportPlan(nodes, tuple(reversed(_upwards(nearest))), _size(contents, missing))


def _size(contents: Contents, nodes: Sequence[Node]) -> int:
    """Bytes of the artifacts of the versions that become a tenant's: roots are everybody's."""
    owned = [node for node in nodes if node.kind != VersionKind.ROOT]
    artifacts = {pair for node in owned for pair in node.digests.items()}
    return sum(
        entry["size"]
        for kind, digest in artifacts
        for entry in artifact_files(contents.files, kind, digest).values()
    )


def import_dry_run(graft: ImportPlan, *, tenant: Tenant | None, actor: Actor, name: str | None) -> None:
    """Raise what planting would: ``quota_exceeded``, ``conflict`` (a name), ``model_not_ready``.

    Leaves nothing. It is for before an archive is unpacked, tried and stored, which takes long, takes room,
    and is not taken back by a transaction.
    """
    with transaction.atomic():
        _prepare(graft, tenant, actor, name)
        transaction.set_rollback(True)


def import_store(graft: ImportPlan, *, store: ArtifactStore, folder: Path) -> Stored:
    """Move the artifacts of what is missing from `folder` into the store.

    Reads and syncs all of them: not to be called in a transaction. Those that no version comes to have are
    removed by the collector, which leaves them time first.
    """
    stored = {}
    for role, digest in dict.fromkeys(pair for node in graft.missing for pair in node.digests.items()):
        stored[role, digest] = store.ingest(role, unpacked(folder, role, digest))
        assert stored[role, digest].digest == digest, "every byte was compared with the manifest"
    return stored


def import_apply(
    graft: ImportPlan, *, stored: Stored, tenant: Tenant | None, actor: Actor, name: str | None
) -> Version:
    """Plant what is missing, the root first, and return the version itself; to be called in a transaction.

    Raises as ``import_dry_run``: much may have happened since.
    """
    known, owners = _prepare(graft, tenant, actor, name)
    placed = dict(zip(reversed(range(len(graft.nodes))), known, strict=False))
    version = known[-1] if known else None
    for place in reversed(range(len(graft.missing))):
        node, owner = graft.nodes[place], owners[place]
        version = version_create(
            owner=owner,
            root=owner if isinstance(owner, Root) else _root_of(version),
            parent=version,
            tenant=None if isinstance(owner, Root) else tenant,
            config=_config(node, placed),
            plans=[],
            actor=actor,
        )
        artifacts_attach(
            version=version, artifacts=[(role, stored[role, digest]) for role, digest in node.digests.items()]
        )
        version_finish(version=version, metrics=node.metrics)
        version.refresh_from_db()
        placed[place] = version
    assert version is not None
    return version


def _levels(nodes: Sequence[Node], tenant: Tenant | None) -> list[list[Version]]:
    """The ready versions here that are the same as the nodes, from the root down as far as there are."""
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


def _upwards(version: Version | None) -> list[Version]:
    branch = []
    while version is not None:
        branch.append(version)
        version = version.parent
    return branch


def _prepare(
    graft: ImportPlan, tenant: Tenant | None, actor: Actor, name: str | None
) -> tuple[list[Version], dict[int, Owner]]:
    """Check all that may be refused, and make the owners of what is missing: the versions that are here, the
    root first, and the owners by place."""
    _check_room(graft, tenant, name)
    known = list(graft.known)
    if known:
        known[-1] = parent_check(
            parent=known[-1], tenant=tenant, kinds=[VersionKind.ROOT, VersionKind.DOMAIN]
        )
    domains = Domain.objects.for_tenant(tenant).count() if tenant else 0
    owners = _owners(graft, known, tenant, actor, name)
    if tenant is not None:
        made = Domain.objects.for_tenant(tenant).count() - domains
        if made:
            quota_check_domains(tenant=tenant, having=domains, adding=made)
    return known, owners


def _check_room(graft: ImportPlan, tenant: Tenant | None, name: str | None) -> None:
    if tenant is None:
        return
    quota_reserve_jobs(tenant=tenant, adding=0)
    for node in graft.missing:
        if node.kind == VersionKind.HPLM:
            quota_reserve_hplm(tenant=tenant, name=name or node.name)
    quota_check_storage(tenant=tenant, adding_bytes=graft.size, beside_uploads=artifact_bytes(tenant))


def _owners(
    graft: ImportPlan, known: Sequence[Version], tenant: Tenant | None, actor: Actor, name: str | None
) -> dict[int, Owner]:
    """By place: what each missing version is a version of, the root's first."""
    owners: dict[int, Owner] = {}
    parent = known[-1].owner if known else None
    for place in reversed(range(len(graft.missing))):
        above = graft.nodes[place + 1] if parent is not None else None
        asked = name if place == 0 else None
        parent = _owner(graft.nodes[place], above, parent, tenant, actor, asked=asked)
        owners[place] = parent
    return owners


def _owner(
    node: Node,
    above: Node | None,
    parent: Owner | None,
    tenant: Tenant | None,
    actor: Actor,
    *,
    asked: str | None,
) -> Owner:
    """A new owner, or that of the version above where both are of the same root or domain."""
    goes_on = above is not None and (above.kind, above.name) == (node.kind, node.name) and asked is None
    by = person(actor)
    if node.kind == VersionKind.HPLM:
        terms = {"task": node.task, "license": node.licence, "description": node.description}
        return _create(Hplm, asked or node.name, tenant=tenant, created_by=by, **terms)
    if node.kind == VersionKind.ROOT:
        if isinstance(parent, Root) and goes_on:
            # Whoever plants a version holds the row of its owner, so that numbers follow one another.
            return Root.objects.select_for_update(no_key=True).get(pk=parent.pk)
        source = node.source_url or f"imported:{node.digest}"
        about = {"source": source, "license": node.licence, "source_url": node.source_url}
        taken = set(Root.objects.values_list("name", flat=True))
        return _create(Root, asked or _free(node.name, taken), created_by=by, **about)
    if isinstance(parent, Domain) and goes_on and parent.tenant == tenant:
        return Domain.unscoped.select_for_update(no_key=True).get(pk=parent.pk)
    assert isinstance(parent, Root | Domain), "a domain stands on a root"
    place = {"root": parent.root if isinstance(parent, Domain) else parent, "tenant": tenant}
    taken = set(Domain.unscoped.filter(**place).values_list("name", flat=True))
    name = asked or _free(node.name, taken)
    return _create(Domain, name, description=node.description, created_by=by, **place)


def _create(model: type[Made], name: str, **columns: Any) -> Made:
    try:
        with transaction.atomic():
            return model._base_manager.create(name=name, **columns)
    except IntegrityError as error:
        raise HmiError(
            ErrorCode.CONFLICT,
            f"There is another {model._meta.verbose_name} called {name!r}: choose a name.",
            param="name",
        ) from error


def _free(name: str, taken: set[str]) -> str:
    """The name, or the first with a number behind it that nobody has."""
    free, number = name, 2
    while free in taken:
        ending = f"-{number}"
        free, number = name[: MAX_NAME_LENGTH - len(ending)].rstrip("-") + ending, number + 1
    return free


def _root_of(version: Version | None) -> Root:
    assert version is not None, "a branch begins with a root"
    return version.root


def _config(node: Node, placed: Mapping[int, Version]) -> dict[str, Any]:
    """The config for this site: ids in place of places, and a word on where it comes from."""
    held = [placed[at].pk for at in node.config.get(COMPACTS, ())]
    kept = {name: value for name, value in node.config.items() if name != COMPACTS}
    origin = {"name": node.name, "number": node.number}
    return kept | ({COMPACTS: held} if held else {}) | {"imported": origin}
