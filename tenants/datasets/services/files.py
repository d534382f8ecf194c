"""Files of the files API and of batches, stored as they were sent: creation, deletion, expiry."""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Final

from django.db import transaction
from django.utils import timezone

from tenants.accounts.models import Tenant
from tenants.audit.services import Actor, audit_record, person
from tenants.base.errors import ErrorCode, HmiError, has_dependents
from tenants.base.hooks import file_users
from tenants.datasets.formats.errors import file_error
from tenants.datasets.models import File, FilePurpose
from tenants.datasets.services.stored_files import (
    clean_filename,
    files_delete_unused,
    receive_file,
    store_files,
)
from tenants.datasets.storage import FileDigest, Readable, StoredFile, stored_path, upload_store
from tenants.usage.services.quotas import quota_check_storage, quota_lock

MAX_FILES: Final = 10_000
"""Of one tenant. The quota limits bytes; this limits the number of files."""


def file_create(
    *,
    tenant: Tenant,
    purpose: str,
    filename: str,
    stream: Readable | StoredFile,
    actor: Actor,
    expires_after: timedelta | None = None,
    released_bytes: int = 0,
    check: Callable[[Path], object] = lambda _: None,
    on_stored: Callable[[File], object] = lambda _: None,
) -> File:
    """Store a stream, or a copy of a file that is already on disk.

    ``expires_after`` is None for never. ``check`` is called with its path before the transaction that stores
    it, and may raise. ``on_stored`` is called in that transaction, and releases ``released_bytes`` of the
    storage quota.

    Raises ``empty_file``, ``file_too_large``, ``quota_exceeded``, ``out_of_disk``, ``corrupt_artifact``. Then
    neither row nor file remains. Must not be called in a transaction.
    """
    name = clean_filename(filename)
    with upload_store().workspace() as workspace:
        source, received = receive_file(stream, workspace, filename=name, key="file", copy=True)
        digest = FileDigest(received["sha256"], received["size_bytes"])
        if not digest.size:
            raise file_error(ErrorCode.EMPTY_FILE, "the file is empty.", file=name)
        check(source.path)
        with store_files({source.path: digest}):
            quota_lock(tenant=tenant)
            if purpose != FilePurpose.BATCH_OUTPUT:  # results of a batch are never lost to this limit
                _check_file_count(tenant)
            quota_check_storage(tenant=tenant, adding_bytes=digest.size, releasing_bytes=released_bytes)
            file = File(
                tenant=tenant,
                purpose=FilePurpose(purpose),
                filename=name,
                sha256=digest.sha256,
                size_bytes=digest.size,
                created_by=person(actor),
                expires_at=None if expires_after is None else timezone.now() + expires_after,
            )
            file.save(force_insert=True)
            _record("file.create", file, actor)
            on_stored(file)
            return file


def file_delete(*, file: File, actor: Actor) -> None:
    """Delete a file, and its bytes unless another row refers to them. ``has_dependents`` if it is in use."""
    with transaction.atomic():
        digest = file.sha256
        list(File.unscoped.select_for_update().filter(pk=file.pk))  # a batch that is about to start waits
        if users := [user for users in file_users(file) for user in users]:
            raise has_dependents(
                f"The file {file.filename!r} is in use and cannot be deleted", users, param="file_id"
            )
        _record("file.delete", file, actor)
        file.delete()
        transaction.on_commit(lambda: files_delete_unused([digest]))


def files_expire() -> int:
    """Delete expired files that are not in use; returns how many."""
    expired = list(File.unscoped.filter(expires_at__lte=timezone.now()).select_related("tenant"))
    deleted = 0
    for file in expired:
        with suppress(HmiError):
            file_delete(file=file, actor=None)
            deleted += 1
    return deleted


def stored_file(file: File) -> StoredFile:
    """The path and digest of a file's bytes in the store."""
    return StoredFile(stored_path(file.sha256), FileDigest(file.sha256, file.size_bytes))


def _check_file_count(tenant: Tenant) -> None:
    count = File.objects.for_tenant(tenant).count()
    if count >= MAX_FILES:
        raise HmiError(
            ErrorCode.QUOTA_EXCEEDED,
            f"{count:,} files are stored. Delete some before you upload more.",
            details={"quota": "files", "limit": MAX_FILES, "used": count},
        )


def _record(verb: str, file: File, actor: Actor) -> None:
    detail = {"purpose": str(file.purpose), "size_bytes": file.size_bytes}
    audit_record(verb=verb, subject=file.filename, tenant=file.tenant, actor=actor, detail=detail)
