"""Export versions as archives (``versiontree.transfer.archive.layout``), and models as adapters."""

import uuid
from collections.abc import Sequence
from pathlib import Path
from shutil import rmtree
from typing import IO, Final

from django.conf import settings
from django.db import transaction

from tenants.audit.services import Actor, audit_record
from tenants.base.disk import disk_full_errors, free_space_check
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.upload_concurrency import release_database
from versiontree.artifact_store import ArtifactDamaged, ArtifactStore
from versiontree.transfer.archive.conversion_cache import (
    ADAPTER,
    REFUSAL,
    conversion_find,
    conversion_key,
    conversion_store,
    file_chunks,
)
from versiontree.transfer.archive.import_lock import LockPurpose, import_lock
from versiontree.transfer.archive.layout import CARD
from versiontree.transfer.archive.sandboxed_check import (
    FORMATS,
    AdapterExportRequest,
    adapter_export_run,
    folder_text,
)
from versiontree.transfer.archive.sources import Download
from versiontree.transfer.archive.writer import (
    Member,
    archive_card,
    archive_members,
    bytes_member,
    file_member,
    folder_write,
    zip_stream,
)
from versiontree.tree.checkpoints import checkpoint_hub_id
from versiontree.tree.models import Version
from versiontree.tree.models.artifact import Role
from versiontree.tree.models.version import VersionKind, VersionState
from versiontree.tree.selectors.lineage import lineage_of
from versiontree.tree.services.versions import tables_check

ZIP: Final = ".zip"
SPACE_FACTOR: Final = 5
"""Disk space for an adapter export: fp32 has twice the bytes, as files and as a zip file."""


def version_export(*, version: Version, out: Path | IO[bytes], actor: Actor, branch: bool = False) -> None:
    """Write the archive of a ready version to a new folder, a new file ending in ``.zip``, or an open file.

    `branch` includes the domains and the root, so that any site can import it. The caller has checked that
    the actor may see the version. Raises ``model_not_ready``, ``conflict`` (`out` exists),
    ``ArtifactDamaged``.
    """
    if isinstance(out, Path):
        if out.exists() or out.is_symlink():
            raise HmiError(ErrorCode.CONFLICT, f"{out} already exists.", param="out")
        _write(_members(version, branch=branch, actor=actor), out)
        return
    for chunk in zip_stream(_members(version, branch=branch, actor=actor)):
        out.write(chunk)


def version_card(version: Version) -> str:
    """The model card of a version."""
    return archive_card(lineage_of(version))


def version_download(*, version: Version, actor: Actor, branch: bool = False) -> Download:
    """As ``version_export``, as a zip file in chunks."""
    members = _members(version, branch=branch, actor=actor)
    return Download(f"{version.name}-v{version.number}{ZIP}", zip_stream(members))


def adapter_download(*, version: Version, form: str, actor: Actor) -> Download:
    """A ready model as a zip file of an adapter that `peft` or `adapters` can load on its root's checkpoint.

    `form` is "peft" or "adapterhub". The result is cached (``archive.conversion_cache``).
    Otherwise a sandboxed process converts the model; each tenant can run one. The database connection is
    released meanwhile. Raises ``model_not_ready``, ``invalid_field`` (the format cannot represent the model),
    ``queue_full``, ``out_of_disk``.
    """
    _require_ready(version)
    if form not in FORMATS or version.kind != VersionKind.HPLM:
        known = ", ".join(FORMATS)
        raise HmiError(ErrorCode.INVALID_FIELD, f"A model can be exported as {known}.", param="format")
    steps = lineage_of(version)
    card, store = archive_card(steps), ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT))
    hplm, root = steps[0].artifacts[Role.HPLM], steps[-1].artifacts[Role.ROOT]
    base = checkpoint_hub_id(version.root.source, version.root.source_url)
    key = conversion_key(
        version.tenant, format=form, hplm=hplm.digest, root=root.digest, card=card, base=base
    )
    made = conversion_find(store, key)
    if made is None:
        with import_lock(LockPurpose.CONVERSION, version.tenant):
            free_space_check(store.root, SPACE_FACTOR * hplm.size)
            release_database()
            made = _convert(store, hplm.digest, root.digest, form, base, card, key)
    if isinstance(made, str):
        message = f"This version cannot be exported as {FORMATS[form]}: {made}."
        raise HmiError(ErrorCode.INVALID_FIELD, message, param="format")
    _audit(version, actor, format=form)
    return Download(f"{version.name}-v{version.number}-{form}{ZIP}", file_chunks(made))


def _convert(
    store: ArtifactStore, hplm: str, root: str, form: str, base: str, card: str, key: str
) -> IO[bytes] | str:
    """Convert and cache a model. Returns the open zip file, or why the format cannot represent it."""
    with store.workspace(Role.HPLM) as folder:
        made = folder / "made"
        made.mkdir()
        answer = adapter_export_run(
            AdapterExportRequest(
                root=folder_text(store.path(Role.ROOT, root)),
                hplm=folder_text(store.path(Role.HPLM, hplm)),
                out=folder_text(folder / form),
                format=form,
                base=base,
            )
        )
        if answer.refused:
            (made / REFUSAL).write_text(answer.refused, encoding="utf-8")
            conversion_store(store, key, made)
            return answer.refused
        card += f"\n## Usage\n\n{answer.read}\n"
        found = [file_member(file) for file in sorted((folder / form).iterdir())]
        with disk_full_errors(), (made / ADAPTER).open("xb") as out:
            out.writelines(zip_stream([bytes_member(CARD, card.encode()), *found]))
        stream = (made / ADAPTER).open("rb")
        conversion_store(store, key, made)
        return stream


def _members(version: Version, *, branch: bool, actor: Actor) -> list[Member]:
    _require_ready(version)
    store = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT))
    members = archive_members(store, lineage_of(version), branch=branch)
    for member in members:
        # An error now is better than one in the middle of a download.
        if isinstance(member.content, Path) and not member.content.is_file():
            raise ArtifactDamaged(f"{member.name} is not in the store.")
    _audit(version, actor, branch=branch)
    return members


def _require_ready(version: Version) -> None:
    if version.state != VersionState.READY:
        raise HmiError(
            ErrorCode.MODEL_NOT_READY,
            f"{version.in_words} is {version.get_state_display().lower()}; only a ready one can be exported.",
            param="version",
        )
    tables_check(version, param="version")


def _audit(version: Version, actor: Actor, **more: bool | str) -> None:
    with transaction.atomic():
        audit_record(
            verb="version.export",
            subject=str(version),
            tenant=version.tenant,
            actor=actor,
            detail={"version": version.pk, "digest": version.digest, **more},
        )


def _write(members: Sequence[Member], out: Path) -> None:
    """Write all members, then rename to ``out``, so that it is complete or missing."""
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_name(f".{out.name}.{uuid.uuid4().hex}")
    try:
        if out.suffix == ZIP:
            with partial.open("xb") as stream:
                stream.writelines(zip_stream(members))
        else:
            folder_write(members, partial)
        partial.rename(out)
    finally:
        if partial.is_dir():
            rmtree(partial, ignore_errors=True)
        partial.unlink(missing_ok=True)
