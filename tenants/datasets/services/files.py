"""Files that are kept as they were sent: stored, deleted, expired."""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Final

from django.db import transaction
from django.utils import timezone

from tenants.accounts.models import Tenant
from tenants.audit.services import Actor, audit_record, person
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.hooks import file_users, has_dependents
from tenants.datasets.formats.failures import bad_file
from tenants.datasets.models import File, FilePurpose
from tenants.datasets.services.intake import clean_filename, filed, files_release, receive_upload
from tenants.datasets.storage import Kept, Measured, Readable, stored_path, upload_store
from tenants.usage.services.quotas import quota_check_storage, quota_lock

MOST_FILES: Final = 10_000
"""Of one tenant: room on the disk is bounded by its quota, files by this."""


def file_create(
    *,
    tenant: Tenant,
    purpose: str,
    filename: str,
    stream: Readable | Kept,
    actor: Actor,
    life: timedelta | None = None,
    frees_bytes: int = 0,
    then: Callable[[File], object] = lambda _: None,
) -> File:
    """Keep what the stream brings, or a copy of a file that is on disk already.

    ``life``: how long; without it, until it is deleted. In the transaction that stores it ``then`` is called,
    which frees so many bytes of the quota. Raises ``empty_file``, ``file_too_large``, ``quota_exceeded``,
    ``out_of_disk`` and ``corrupt_artifact`` (it is not what was measured); then neither row nor file remains.
    Not within a transaction.
    """
    name = clean_filename(filename)
    with upload_store().workspace() as workspace:
        source, received = receive_upload(stream, workspace, filename=name, key="file", copies=True)
        measured = Measured(received["sha256"], received["size_bytes"])
        if not measured.size:
            raise bad_file(ErrorCode.EMPTY_FILE, "the file is empty.", file=name)
        with filed({source.path: measured}):
            quota_lock(tenant=tenant)
            if purpose != FilePurpose.BATCH_OUTPUT:  # what was computed is not lost for a number
                _check_number(tenant)
            quota_check_storage(tenant=tenant, adding_bytes=measured.size, beside_uploads=-frees_bytes)
            file = File(
                tenant=tenant,
                purpose=FilePurpose(purpose),
                filename=name,
                sha256=measured.sha256,
                size_bytes=measured.size,
                created_by=person(actor),
                expires_at=timezone.now() + life if life is not None else None,
            )
            file.save(force_insert=True)
            _record("file.create", file, actor)
            then(file)
            return file


def file_delete(*, file: File, actor: Actor) -> None:
    """Delete a file, and its bytes unless others have the same. In use: ``has_dependents``."""
    with transaction.atomic():
        digest = file.sha256
        list(File.unscoped.select_for_update().filter(pk=file.pk))  # a batch that would begin waits
        if users := [user for users in file_users(file) for user in users]:
            raise has_dependents(f"The file {file.filename!r} is in use and stays", users, param="file_id")
        _record("file.delete", file, actor)
        file.delete()
        transaction.on_commit(lambda: files_release([digest]))


def files_expire() -> int:
    """Delete files whose time is over, those in use later; returns how many."""
    due = list(File.unscoped.filter(expires_at__lte=timezone.now()).select_related("tenant"))
    gone = 0
    for file in due:
        with suppress(HmiError):
            file_delete(file=file, actor=None)
            gone += 1
    return gone


def file_kept(file: File) -> Kept:
    """The bytes of a file, to be read as often as one likes; they stay where they are."""
    return Kept(stored_path(file.sha256), Measured(file.sha256, file.size_bytes))


def _check_number(tenant: Tenant) -> None:
    there = File.objects.for_tenant(tenant).count()
    if there >= MOST_FILES:
        raise HmiError(
            ErrorCode.QUOTA_EXCEEDED,
            f"{there:,} files are kept; delete some before you send more.",
            details={"quota": "files", "limit": MOST_FILES, "used": there},
        )


def _record(verb: str, file: File, actor: Actor) -> None:
    detail = {"purpose": str(file.purpose), "size_bytes": file.size_bytes}
    audit_record(verb=verb, subject=file.filename, tenant=file.tenant, actor=actor, detail=detail)
