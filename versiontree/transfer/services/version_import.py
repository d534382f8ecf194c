"""Import versions that another site or tenant exported."""

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
from versiontree.transfer.archive.layout import Contents, Node, invalid_archive
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
    """Import the version in an archive (a folder, a zip file, or an open one) as a ready version.

    A model becomes a new model of the tenant, called `name` or as before. Its parent is the version on this
    site that is identical to its old parent (`parent` chooses among several). Missing ancestors are imported
    from the archive's branch: domains for the tenant, or for the platform without a tenant. Only staff may
    add roots and platform domains. Everything is verified and loaded in a sandbox before it is stored. Do not
    call it in a transaction: it takes long. Each tenant can run one import at a time.

    Raises ``invalid_archive``, ``file_too_large``, ``missing_branch`` (naming what the version needs),
    ``forbidden``, ``conflict``, ``invalid_field``, ``model_not_ready``, ``quota_exceeded``, ``queue_full``,
    ``out_of_disk``.
    """
    if name is not None:
        require_slug(name)
    with (
        import_lock(LockPurpose.IMPORT, tenant),
        archive_open(archive, max_bytes=settings.HMI_IMPORT_MAX_BYTES) as opened,
    ):
        contents = opened.contents
        if contents.version.kind == VersionKind.HPLM and tenant is None:
            message = "A model belongs to a tenant. Specify the tenant."
            raise HmiError(ErrorCode.MISSING_FIELD, message, param="tenant")
        plan = import_plan(contents, tenant=tenant, parent=parent)
        _check_rights(plan.missing, tenant, actor)
        with _scope(plan.missing):
            import_dry_run(plan, tenant=tenant, actor=actor, name=name)
        stored = _verify_and_store(opened, plan)
        with _scope(plan.missing), transaction.atomic():
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
                    "created": len(plan.missing),
                },
            )
    return version


def _check_rights(missing: Sequence[Node], tenant: Tenant | None, actor: Actor) -> None:
    """Raise ``forbidden`` unless the actor may add the roots and platform domains among these."""
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


def _scope(missing: Sequence[Node]) -> AbstractContextManager[None]:
    """The database scope of the import: the platform's if the archive adds a root."""
    brings_root = any(node.kind == VersionKind.ROOT for node in missing)
    return platform_scope() if brings_root else nullcontext()


def _verify_and_store(opened: Archive, plan: ImportPlan) -> Stored:
    """Unpack the archive, load its artifacts in a sandbox, and store those that are missing."""
    store = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT))
    free_space_check(store.root, opened.contents.size)
    release_database()
    with store.workspace(Role.HPLM) as folder:
        opened.unpack(folder)
        _check_artifacts(opened.contents, plan, folder, store)
        return import_store(plan, store=store, folder=folder)


def _check_artifacts(contents: Contents, plan: ImportPlan, folder: Path, store: ArtifactStore) -> None:
    root = next(node for node in contents.nodes if node.kind == VersionKind.ROOT)
    new = [node for node in contents.nodes if node in plan.missing]
    digest = root.digests[Role.ROOT]
    root_folder = unpacked(folder, Role.ROOT, digest) if root in new else store.path(Role.ROOT, digest)

    def folders(role: Role) -> list[str]:
        digests = dict.fromkeys(node.digests[role] for node in new if role in node.digests)
        return [folder_text(unpacked(folder, role, digest)) for digest in digests]

    own = contents.version
    report = artifacts_check(
        ArtifactCheck(
            root=folder_text(root_folder),
            root_is_new=root in new,
            lowers=folders(Role.LOWER),
            plots=folders(Role.PLOT),
            ends=contents.nodes[-1] in new,
            hplm=next(iter(folders(Role.HPLM)), None),
            cascade=next(iter(folders(Role.CASCADE)), None),
        )
    )
    if own.kind == VersionKind.HPLM and report != {
        "task": own.task,
        "pairs": takes_pairs(own.task, own.config),
    }:
        raise invalid_archive(f"{own.name} is not trained for what the manifest says.")
