"""Importing versions that another site, or another tenant, exported."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO

from django.conf import settings
from django.db import transaction

from tenants.accounts.models import ApiKey, Tenant, User
from tenants.audit.services import Actor, audit_record
from tenants.base.disk import free_space_check
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.scope import platform_scope
from tenants.base.upload_concurrency import release_database
from versiontree.artifact_store import ArtifactStore
from versiontree.names import require_slug
from versiontree.transfer.archive.import_lock import LockPurpose, import_lock
from versiontree.transfer.archive.layout import Contents, Node, refused
from versiontree.transfer.archive.reader import Archive, archive_open, unpacked
from versiontree.transfer.archive.sandboxed_check import ArtifactCheck, artifacts_check, folder_text
from versiontree.transfer.services.import_plan import (
    ImportPlan,
    Stored,
    import_apply,
    import_dry_run,
    import_plan,
    import_store,
)
from versiontree.tree.models import Version
from versiontree.tree.models.artifact import Role
from versiontree.tree.models.version import VersionKind
from versiontree.tree.serving_manifest import takes_pairs


def version_import(
    *,
    archive: Path | IO[bytes],
    tenant: Tenant | None,
    actor: Actor,
    name: str | None = None,
    parent: Version | None = None,
) -> Version:
    """The version in an archive (a folder, a zip file, or an open one), ready, with the digest it had.

    A model becomes a new one of the tenant's, called `name` or as it was. It stands on the version of this
    site that is the same as the one it stood on (`parent` says which, if several are); what is not here comes
    from the archive's branch: domains become the tenant's, or without a tenant the platform's, which only
    staff may do, as only they may add roots. All is verified, and tried, before anything is stored. Not to be
    called in a transaction: it takes long, and each tenant has one import at a time.

    Raises ``invalid_archive``, ``file_too_large``, ``missing_branch`` (naming what the version needs),
    ``forbidden``, ``conflict``, ``invalid_field``, ``model_not_ready``, ``quota_exceeded``, ``queue_full``,
    ``out_of_disk``.
    """
    if name is not None:
        require_slug(name)
    with (
        import_lock(LockPurpose.IMPORT, tenant),
        archive_open(archive, most_bytes=settings.HMI_IMPORT_MAX_BYTES) as opened,
    ):
        contents = opened.contents
        if contents.version.kind == VersionKind.HPLM and tenant is None:
            message = "A model belongs to a tenant: say which."
            raise HmiError(ErrorCode.MISSING_FIELD, message, param="tenant")
        plan = import_plan(contents, tenant=tenant, parent=parent)
        _check_rights(plan.missing, tenant, actor)
        with _where(plan.missing):
            import_dry_run(plan, tenant=tenant, actor=actor, name=name)
        stored = _stored(opened, plan)
        with _where(plan.missing), transaction.atomic():
            version = import_apply(plan, stored=stored, tenant=tenant, actor=actor, name=name)
            audit_record(
                verb="version.import",
                subject=str(version),
                tenant=version.tenant,
                actor=actor,
                detail={
                    "version": version.pk,
                    "digest": version.digest,
                    "was": f"{contents.version.name}:{contents.version.number}",
                    "planted": len(plan.missing),
                },
            )
    return version


def _check_rights(missing: Sequence[Node], tenant: Tenant | None, actor: Actor) -> None:
    """Only staff with the permission to add such rows, or the system itself, add to what everybody sees."""
    root = next((node for node in missing if node.kind == VersionKind.ROOT), None)
    kinds = {node.kind for node in missing if tenant is None or node.kind == VersionKind.ROOT}
    if actor is None or _may_add(actor, kinds):
        return
    if root is not None or tenant is None:
        what = root.in_words if root else "what belongs to the platform"
        raise HmiError(
            ErrorCode.FORBIDDEN,
            f"This site does not have {what}; only its administrators can import that.",
            param="archive",
        )


def _may_add(actor: User | ApiKey, kinds: set[VersionKind]) -> bool:
    if not isinstance(actor, User) or not actor.is_staff:
        return False
    return actor.has_perms([f"tree.add_{kind.owner_field}" for kind in kinds])


def _where(missing: Sequence[Node]) -> AbstractContextManager[None]:
    """A root that comes along is the platform's, also below it a tenant plants."""
    brings_root = any(node.kind == VersionKind.ROOT for node in missing)
    return platform_scope() if brings_root else nullcontext()


def _stored(opened: Archive, plan: ImportPlan) -> Stored:
    """Verify the artifacts, try them and put those that are missing into the store."""
    store = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT))
    free_space_check(store.root, opened.contents.size)
    release_database()
    with store.workspace(Role.HPLM) as folder:
        opened.unpack(folder)
        _try_out(opened.contents, plan, folder, store)
        return import_store(plan, store=store, folder=folder)


def _try_out(contents: Contents, plan: ImportPlan, folder: Path, store: ArtifactStore) -> None:
    root = next(node for node in contents.nodes if node.kind == VersionKind.ROOT)
    new = [node for node in contents.nodes if node in plan.missing]
    digest = root.digests[Role.ROOT]
    home = unpacked(folder, Role.ROOT, digest) if root in new else store.path(Role.ROOT, digest)

    def made(role: Role) -> list[str]:
        digests = dict.fromkeys(node.digests[role] for node in new if role in node.digests)
        return [folder_text(unpacked(folder, role, digest)) for digest in digests]

    own = contents.version
    said = artifacts_check(
        ArtifactCheck(
            root=folder_text(home),
            root_is_new=root in new,
            lowers=made(Role.LOWER),
            plots=made(Role.PLOT),
            ends=contents.nodes[-1] in new,
            hplm=next(iter(made(Role.HPLM)), None),
        )
    )
    if own.kind == VersionKind.HPLM and said != {
        "task": own.task,
        "pairs": takes_pairs(own.task, own.config),
    }:
        raise refused(f"{own.name} is not trained for what the manifest says.")
