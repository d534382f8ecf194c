"""Importing adapters that `peft` or `adapters` saved elsewhere: each becomes a model."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from django.conf import settings
from django.db import transaction

from tenants.accounts.models import Tenant
from tenants.audit.services import Actor, audit_record, person
from tenants.base.disk import free_space_check
from tenants.base.errors import ErrorCode, HmiError, not_found
from tenants.base.upload_concurrency import release_database
from tenants.usage.services.quotas import quota_check_storage
from versiontree.artifact_store import ArtifactStore, StoredArtifact
from versiontree.names import require_slug
from versiontree.transfer.archive.adapter import adapter_open, largest_adapter
from versiontree.transfer.archive.import_lock import LockPurpose, import_lock
from versiontree.transfer.archive.sandboxed_check import AdapterImportRequest, adapter_import_run, folder_text
from versiontree.tree.models import Hplm, Version
from versiontree.tree.models.artifact import Role
from versiontree.tree.models.version import VersionKind
from versiontree.tree.selectors.lineage import lineage_of
from versiontree.tree.selectors.versions import artifact_bytes
from versiontree.tree.services.licenses import license_check
from versiontree.tree.services.quota_reservations import quota_reserve_hplm, quota_reserve_version
from versiontree.tree.services.version_completion import artifacts_attach, version_finish
from versiontree.tree.services.versions import parent_check, version_create
from versiontree.tree.tokenizer_fit import root_config

MAX_LIST_LENGTH = 2000
"""Names of what was left out are kept up to so many signs."""


def adapter_import(
    *,
    archive: Path | IO[bytes],
    tenant: Tenant,
    parent: Version,
    of: Hplm | str,
    actor: Actor,
    labels: Sequence[str] = (),
    task: str = "",
    pairs: bool = False,
    drop_lower: bool = False,
    license: str = "",  # noqa: A002
) -> Version:
    """The adapter in an archive (a folder, a zip file, or an open one) as a ready version under `parent`: of
    a new model if `of` is a name, else a further one of that model.

    labels, task (of a whole text) and pairs say what the folder leaves open. What the adapter changes below
    the cut is a reason to refuse it, or with `drop_lower` left out, as the version's warnings then say. All
    is checked, and tried, before anything is stored: quota and disk by the sizes that the archive claims
    before it is unpacked, and by the model's own before that is stored. Not to be called in a transaction: it
    takes seconds, and each tenant has one import at a time.

    Raises ``invalid_archive``, ``file_too_large``, ``conflict`` (the name), ``not_found``, ``invalid_field``,
    ``model_not_ready``, ``quota_exceeded``, ``queue_full``, ``out_of_disk``.
    """
    terms = license_check(license)
    if isinstance(of, str):
        require_slug(of)
    store = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT))
    largest = min(settings.HMI_IMPORT_MAX_BYTES, largest_adapter(root_config(parent)))
    with import_lock(LockPurpose.IMPORT, tenant), adapter_open(archive, max_bytes=largest) as opened:
        with transaction.atomic():
            _prepare(of, tenant, parent, terms, actor, task="classification", adding=opened.size)
            transaction.set_rollback(True)
        # What it becomes may be larger than it is: all layers get the highest rank of any.
        free_space_check(store.root, opened.size + largest)
        release_database()
        with store.workspace(Role.HPLM) as folder:
            opened.unpack(folder / "adapter")
            said = adapter_import_run(
                AdapterImportRequest(
                    root=folder_text(_root_folder(parent, store)),
                    adapter=folder_text(folder / "adapter"),
                    out=folder_text(folder / "hplm"),
                    labels=list(labels),
                    task=task,
                    pairs=pairs,
                    drop_lower=drop_lower,
                )
            )
            size = sum(file.stat().st_size for file in (folder / "hplm").iterdir())
            quota_check_storage(tenant=tenant, adding_bytes=size, beside_uploads=artifact_bytes(tenant))
            made = store.ingest(Role.HPLM, folder / "hplm")
    return _plant(of, tenant, parent, terms, actor, said, made)


def _root_folder(parent: Version, store: ArtifactStore) -> Path:
    return store.path(Role.ROOT, lineage_of(parent)[-1].artifacts[Role.ROOT].digest)


@transaction.atomic
def _plant(
    of: Hplm | str,
    tenant: Tenant,
    parent: Version,
    terms: str,
    actor: Actor,
    said: Mapping[str, Any],
    made: StoredArtifact,
) -> Version:
    hplm, above = _prepare(of, tenant, parent, terms, actor, task=said["task"], adding=made.size)
    if hplm.task != said["task"]:
        raise HmiError(
            ErrorCode.INVALID_FIELD,
            f"{hplm.name} does {hplm.get_task_display().lower()}; this adapter does {said['task']}.",
            param="archive",
        )
    version = version_create(
        owner=hplm,
        root=above.root,
        parent=above,
        tenant=tenant,
        config=_config(said),
        plans=[],
        actor=actor,
    )
    artifacts_attach(version=version, artifacts=[(Role.HPLM, made)])
    version_finish(version=version, metrics={})
    audit_record(
        verb="version.import",
        subject=str(version),
        tenant=tenant,
        actor=actor,
        detail={"version": version.pk, "digest": made.digest, "format": said["about"]["format"]},
    )
    version.refresh_from_db()
    return version


def _prepare(
    of: Hplm | str,
    tenant: Tenant,
    parent: Version,
    terms: str,
    actor: Actor,
    *,
    task: str,
    adding: int,
) -> tuple[Hplm, Version]:
    """Check all that may be refused; the model, its row held, and the parent as it is now."""
    quota_reserve_version(tenant=tenant, jobs=0)
    quota_check_storage(tenant=tenant, adding_bytes=adding, beside_uploads=artifact_bytes(tenant))
    above = parent_check(parent=parent, tenant=tenant, kinds=[VersionKind.ROOT, VersionKind.DOMAIN])
    if isinstance(of, str):
        quota_reserve_hplm(tenant=tenant, name=of)
        columns = {"name": of, "task": task, "license": terms, "created_by": person(actor)}
        return Hplm.unscoped.create(tenant=tenant, **columns), above
    rows = Hplm.objects.for_tenant(tenant).select_for_update(no_key=True, of=("self",))
    held = rows.filter(pk=of.pk, deleted_at=None).first()
    if held is None:
        raise not_found("model", param="name")
    return held, above


def _config(said: Mapping[str, Any]) -> dict[str, Any]:
    """What a version keeps of how it was made."""
    pet = said["pet"]
    config: dict[str, Any] = {
        "labels": said["labels"],
        "settings": {name: pet[name] for name in ("lora", "adapter", "output_adapter", "biases", "norms")},
        "imported": {key: str(value)[:200] for key, value in said["about"].items() if value},
    }
    if said["pairs"]:
        config["dataset"] = {"pairs": True}
    if said["dropped"]:
        names = ", ".join(said["dropped"])
        told = f"What the adapter changed below the cut was left out: {names[:MAX_LIST_LENGTH]}."
        config["warnings"] = [f"{told} It answers otherwise than where it was trained."]
    return config
