"""Import adapters, saved by `peft` or `adapters`, as versions of models."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

from django.conf import settings
from django.db import transaction

from tenants.accounts.models import Tenant
from tenants.audit.services import Actor, audit_record, person
from tenants.base.disk import free_space_check
from tenants.base.errors import ErrorCode, HmiError, require_found
from tenants.base.upload_concurrency import release_database
from tenants.datasets.models import GENERATIVE_TASKS, Task
from tenants.usage.services.quotas import quota_check_storage
from versiontree.artifact_store import ArtifactStore, StoredArtifact
from versiontree.names import require_slug
from versiontree.transfer.archive.adapter import adapter_open, largest_adapter, largest_lora
from versiontree.transfer.archive.import_lock import LockPurpose, import_lock
from versiontree.transfer.archive.sandboxed_check import AdapterImportRequest, adapter_import_run, folder_text
from versiontree.tree.checkpoints import checkpoint_hub_id
from versiontree.tree.models import Hplm, Root, RootKind, Version
from versiontree.tree.models.artifact import Role
from versiontree.tree.models.version import VersionKind
from versiontree.tree.selectors.lineage import lineage_of
from versiontree.tree.services.dry_run import dry_run
from versiontree.tree.services.licenses import license_check
from versiontree.tree.services.quota_reservations import quota_reserve_hplm, quota_reserve_version
from versiontree.tree.services.settings_inheritance import PET_SHAPE_SETTINGS
from versiontree.tree.services.version_completion import artifacts_attach, version_finish
from versiontree.tree.services.versions import parent_check, version_create
from versiontree.tree.tokenizer_fit import root_config

LARGEST: Final = {RootKind.ENCODER: largest_adapter, RootKind.DECODER: largest_lora}
"""The size of the largest adapter by the kind of the root."""
PREPARED: Final = {RootKind.ENCODER: Task.CLASSIFICATION, RootKind.DECODER: Task.GENERATION}
"""A placeholder task for the checks before the adapter is read. They do not depend on the task."""
MAX_LIST_LENGTH = 2000
"""The longest list of dropped tensor names in a warning, in characters."""
MAX_BASE_LENGTH = 200
"""The longest name of a checkpoint in a warning, in characters."""


def adapter_import(
    *,
    archive: Path | IO[bytes],
    tenant: Tenant,
    parent: Version,
    model: Hplm | str,
    actor: Actor,
    labels: Sequence[str] = (),
    task: str = "",
    pairs: bool = False,
    drop_lower: bool = False,
    license: str = "",  # noqa: A002
) -> Version:
    """Import the adapter in an archive (a folder, a zip file, or an open one) as a ready version.

    `model` is the name of a new model, or the model that gets a new version. `labels`, `task` and `pairs` are
    used if the folder does not define them. Changes of the adapter below the cut of an encoder are an error,
    or with `drop_lower` a warning of the version. For a decoder root the adapter is a LoRA, for `task`
    "generation" or "chat", and may change any layer. The adapter is loaded in a sandbox before anything is
    stored. Quota and disk space are checked before unpacking, and again with the size of the model. Do not
    call it in a transaction: it takes seconds. Each tenant can run one import at a time.

    Raises ``invalid_archive``, ``file_too_large``, ``conflict`` (the name), ``not_found``, ``invalid_field``,
    ``model_not_ready``, ``quota_exceeded``, ``queue_full``, ``out_of_disk``.
    """
    license_text = license_check(license)
    if isinstance(model, str):
        require_slug(model)
    kind = RootKind(parent.root.kind)
    _check_options(kind, labels=labels, task=task, pairs=pairs, drop_lower=drop_lower)
    store = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT))
    largest = min(settings.HMI_IMPORT_MAX_BYTES, LARGEST[kind](root_config(parent)))
    with import_lock(LockPurpose.IMPORT, tenant), adapter_open(archive, max_bytes=largest) as opened:
        prepared, adding = task or PREPARED[kind], opened.size
        dry_run(lambda: _prepare(model, tenant, parent, license_text, actor, task=prepared, adding=adding))
        # The model may be larger than the adapter: all its layers have the highest rank of any layer.
        free_space_check(store.root, opened.size + largest)
        release_database()
        with store.workspace(Role.HPLM) as folder:
            opened.unpack(folder / "adapter")
            report = adapter_import_run(
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
            quota_check_storage(tenant=tenant, adding_bytes=size)
            stored = store.ingest(Role.HPLM, folder / "hplm")
    return _create_version(model, tenant, parent, license_text, actor, report, stored)


def _check_options(
    kind: RootKind, *, labels: Sequence[str], task: str, pairs: bool, drop_lower: bool
) -> None:
    """Raise ``invalid_field`` for an option that is not supported for a root of this kind."""
    if task and (task in GENERATIVE_TASKS) != (kind == RootKind.DECODER):
        tasks = [choice for choice in Task if (choice in GENERATIVE_TASKS) == (kind == RootKind.DECODER)]
        message = f"The root is {kind.in_words}. The task must be one of {', '.join(tasks)}."
        raise HmiError(ErrorCode.INVALID_FIELD, message, param="task")
    if kind == RootKind.DECODER:
        for name, chosen in {"labels": labels, "pairs": pairs, "drop_lower": drop_lower}.items():
            if chosen:
                message = f"The root is a decoder, but {name} is supported for encoders only."
                raise HmiError(ErrorCode.INVALID_FIELD, message, param=name)


def _root_folder(parent: Version, store: ArtifactStore) -> Path:
    return store.path(Role.ROOT, lineage_of(parent)[-1].artifacts[Role.ROOT].digest)


@transaction.atomic
def _create_version(
    model: Hplm | str,
    tenant: Tenant,
    parent: Version,
    license_text: str,
    actor: Actor,
    report: Mapping[str, Any],
    stored: StoredArtifact,
) -> Version:
    hplm, above = _prepare(
        model, tenant, parent, license_text, actor, task=report["task"], adding=stored.size
    )
    if hplm.task != report["task"]:
        raise HmiError(
            ErrorCode.INVALID_FIELD,
            f"The task of {hplm.name} is {hplm.task}, but that of the adapter is {report['task']}. Import it "
            "as a new model.",
            param="archive",
        )
    version = version_create(
        owner=hplm,
        root=above.root,
        parent=above,
        tenant=tenant,
        config=_config(report, above.root),
        plans=[],
        actor=actor,
    )
    artifacts_attach(version=version, artifacts=[(Role.HPLM, stored)])
    version_finish(version=version, metrics={})
    audit_record(
        verb="version.import",
        subject=str(version),
        tenant=tenant,
        actor=actor,
        detail={"version": version.pk, "digest": stored.digest, "format": report["about"]["format"]},
    )
    version.refresh_from_db()
    return version


def _prepare(
    model: Hplm | str,
    tenant: Tenant,
    parent: Version,
    license_text: str,
    actor: Actor,
    *,
    task: str,
    adding: int,
) -> tuple[Hplm, Version]:
    """Check quotas and the parent. Returns the locked or new model, and the parent."""
    quota_reserve_version(tenant=tenant, jobs=0)
    quota_check_storage(tenant=tenant, adding_bytes=adding)
    above = parent_check(parent=parent, tenant=tenant, kinds=[VersionKind.ROOT, VersionKind.DOMAIN])
    if isinstance(model, str):
        quota_reserve_hplm(tenant=tenant, name=model)
        columns = {"name": model, "task": task, "license": license_text, "created_by": person(actor)}
        return Hplm.unscoped.create(tenant=tenant, **columns), above
    rows = Hplm.objects.for_tenant(tenant).select_for_update(no_key=True, of=("self",))
    locked = require_found(rows.filter(pk=model.pk, deleted_at=None).first(), "model", param="name")
    return locked, above


def _config(report: Mapping[str, Any], root: Root) -> dict[str, Any]:
    """The config of the version."""
    pet = report["pet"]
    config: dict[str, Any] = {
        "labels": report["labels"],
        "settings": {name: pet[name] for name in PET_SHAPE_SETTINGS[RootKind(root.kind)] if name in pet},
        "imported": {key: str(value)[:200] for key, value in report["about"].items() if value},
    }
    if report["pairs"]:
        config["dataset"] = {"pairs": True}
    if warnings := list(_warnings(report, root)):
        config["warnings"] = warnings
    return config


def _warnings(report: Mapping[str, Any], root: Root) -> Iterator[str]:
    if report["dropped"]:
        names = ", ".join(report["dropped"])
        dropped = f"The adapter's changes to the lower layers were dropped: {names[:MAX_LIST_LENGTH]}."
        yield f"{dropped} The outputs differ from those of the original adapter."
    if report.get("below_cut"):
        yield (
            "The LoRA changes layers below the cut. Training a new version from this one starts from the "
            "root's layers and does not continue this LoRA."
        )
    base = str(report["about"].get("base_model_name_or_path") or "")[:MAX_BASE_LENGTH]
    ours = checkpoint_hub_id(root.source, root.source_url)
    if root.kind == RootKind.DECODER and ours and base.count("/") == 1 and _name(base) != _name(ours):
        yield f"The adapter was trained on {base}, but the root {root.name} is {ours}."


def _name(hub_id: str) -> str:
    """The name of a checkpoint without its owner: copies have another owner."""
    return hub_id.rpartition("/")[2].lower()
