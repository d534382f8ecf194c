"""Resumable uploads: creation, appending, completion, deletion, expiry.

``upload_append`` is the one way in which bytes enter an upload. The tus API and uploaded forms call it.
"""

from base64 import b64decode
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final
from uuid import UUID

from django.conf import settings
from django.core.files import File as LocalFile
from django.db import transaction
from django.utils import timezone

from tenants.accounts.models import ApiKey, Tenant, User
from tenants.audit.services import person
from tenants.base.disk import sync
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.upload_concurrency import release_database
from tenants.datasets.append_only_file import (
    append_chunks,
    append_verified_chunks,
    make_read_only,
    read_chunks,
    received_bytes,
)
from tenants.datasets.models import Upload
from tenants.datasets.selectors.uploads import uploads_in_use, uploads_unexpired
from tenants.datasets.services.check_results import check_result_delete
from tenants.datasets.services.stored_files import clean_filename
from tenants.datasets.storage import (
    UPLOADS_FOLDER,
    FileDigest,
    Readable,
    StoredFile,
    digest_file,
    upload_store,
)
from tenants.usage.services.quotas import quota_check_storage, quota_lock

MAX_UPLOADS: Final = 100
"""Of one tenant. The quota limits bytes; this limits the number of uploads."""


@dataclass(frozen=True, slots=True)
class Checksum:
    """The checksum of a request's body: an algorithm of ``hashlib``, and the digest in base64."""

    algorithm: str
    digest: str


def upload_create(
    *,
    tenant: Tenant,
    filename: str,
    size: int,
    actor: User | ApiKey,
    expected_sha256: str = "",
    fingerprint: str = "",
    metadata: str = "",
) -> Upload:
    """Create an upload of ``size`` bytes, which count towards the quota from now on.

    ``fingerprint`` identifies the file for the client; ``metadata`` is what the client sent.
    Raises ``file_too_large``, ``quota_exceeded``.
    """
    _check_size(filename, size)
    upload = Upload(
        tenant=tenant,
        created_by=person(actor),
        api_key=actor if isinstance(actor, ApiKey) else None,
        filename=clean_filename(filename),
        fingerprint=fingerprint,
        metadata=metadata,
        size_bytes=size,
        expected_sha256=expected_sha256.lower(),
        expires_at=_expiry(),
    )
    with transaction.atomic():
        quota_lock(tenant=tenant)
        _check_upload_count(tenant)
        quota_check_storage(tenant=tenant, adding_bytes=size)
        upload.save(force_insert=True)
    path = upload_store().upload_path(upload.pk)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    if size == 0:
        upload_complete(upload=upload)
    return upload


def upload_receive(
    *, tenant: Tenant, filename: str, size: int, stream: Readable, actor: User | ApiKey
) -> Upload:
    """A complete upload, from a file of a form."""
    upload = upload_create(tenant=tenant, filename=filename, size=size, actor=actor)
    upload_append(upload=upload, stream=stream, offset=0)
    return upload


def upload_append(
    *,
    upload: Upload,
    stream: Readable,
    offset: int,
    checksum: Checksum | None = None,
    expected_sha256: str = "",
) -> int:
    """Append the stream at ``offset``; returns how many bytes have arrived in all.

    If the stream breaks, the bytes before that stay, unless there is a ``checksum``: then none stay. The
    last byte completes the upload. Raises ``conflict`` (wrong offset, or the upload is complete),
    ``checksum_mismatch``, ``body_too_large``, ``out_of_disk``.
    """
    if expected_sha256:
        Upload.unscoped.filter(pk=upload.pk).update(expected_sha256=expected_sha256.lower())
        upload.expected_sha256 = expected_sha256.lower()
    path = upload_store().upload_path(upload.pk)
    if not isinstance(stream, LocalFile):
        release_database()  # the client may be slow
    if checksum is None:
        length = append_chunks(path, read_chunks(stream), offset=offset, max_size=upload.size_bytes)
    else:
        length = append_verified_chunks(
            path,
            read_chunks(stream),
            offset=offset,
            max_size=upload.size_bytes,
            algorithm=checksum.algorithm,
            digest=_from_base64(checksum.digest, "Upload-Checksum"),
        )
    upload.expires_at = _expiry()
    Upload.unscoped.filter(pk=upload.pk).update(expires_at=upload.expires_at)
    if length == upload.size_bytes:
        upload_complete(upload=upload)
    return length


def upload_complete(*, upload: Upload) -> None:
    """Complete an upload: make its file read-only and compare its checksum. May be repeated.

    Raises ``conflict`` if bytes are missing, and ``checksum_mismatch``, which deletes the upload.
    """
    if upload.is_complete:
        return
    path = upload_store().upload_path(upload.pk)
    received = received_bytes(path)
    if received != upload.size_bytes:
        raise HmiError(
            ErrorCode.CONFLICT,
            f"{upload.filename} is incomplete: {received:,} of {upload.size_bytes:,} bytes have arrived.",
            param="file",
            details={"offset": received, "size": upload.size_bytes},
        )
    make_read_only(path, upload.size_bytes)
    sync(path)
    digest = digest_file(path)
    if upload.expected_sha256 not in ("", digest.sha256):
        upload_delete(upload=upload)
        raise HmiError(
            ErrorCode.CHECKSUM_MISMATCH,
            f"{upload.filename} arrived damaged: its sha256 is {digest.sha256} and should be"
            f" {upload.expected_sha256}. The upload was deleted; upload it again.",
            param="file",
            details={"found": digest.sha256, "expected": upload.expected_sha256},
        )
    upload.sha256, upload.completed_at = digest.sha256, timezone.now()
    Upload.unscoped.filter(pk=upload.pk, completed_at=None).update(
        sha256=upload.sha256, completed_at=upload.completed_at
    )


def upload_delete(*, upload: Upload) -> None:
    """Delete an upload, complete or not. May be repeated."""
    _delete({upload.pk})


def uploads_consume(uploads: Iterable[Upload]) -> None:
    """Delete uploads of which something was made: rows in the caller's transaction, files on commit.

    Raises ``conflict`` if one was used or deleted meanwhile.
    """
    keys = {upload.pk for upload in uploads}
    if _delete(keys) != len(keys):
        raise HmiError(
            ErrorCode.CONFLICT,
            "These uploads were already used or deleted. Upload the files again.",
            param="file",
        )


def upload_stored_file(upload: Upload) -> StoredFile:
    """The path and digest of an upload's file. Completes the upload if all bytes have arrived."""
    upload_complete(upload=upload)
    return StoredFile(upload_store().upload_path(upload.pk), FileDigest(upload.sha256, upload.size_bytes))


def uploads_expire() -> int:
    """Delete expired uploads, and old files without a row; returns how many."""
    expired = list(Upload.unscoped.filter(expires_at__lte=timezone.now()).exclude(pk__in=uploads_in_use()))
    for upload in expired:
        with transaction.atomic():
            upload_delete(upload=upload)
    keys = Upload.unscoped.values_list("pk", flat=True)
    return len(expired) + upload_store().delete_orphans(UPLOADS_FOLDER, keys.all)


def _expiry() -> datetime:
    """When an upload expires that gets no more bytes from now on."""
    return timezone.now() + timedelta(hours=settings.HMI_UPLOAD_EXPIRY_H)


def _check_size(filename: str, size: int) -> None:
    limit = settings.HMI_UPLOAD_MAX_BYTES
    if size > limit:
        raise HmiError(
            ErrorCode.FILE_TOO_LARGE,
            f"{clean_filename(filename)} has {size:,} bytes. At most {limit:,} are allowed.",
            param="file",
            details={"size": size, "limit": limit},
        )


def _check_upload_count(tenant: Tenant) -> None:
    count = uploads_unexpired(tenant).count()
    if count >= MAX_UPLOADS:
        raise HmiError(
            ErrorCode.QUOTA_EXCEEDED,
            f"{count} uploads are incomplete or unused. Complete or delete some before you start more.",
            details={"quota": "uploads", "limit": MAX_UPLOADS, "used": count},
        )


def _from_base64(text: str, param: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError as error:
        raise HmiError(ErrorCode.INVALID_FIELD, f"{param} is not base64.", param=param) from error


def _delete(keys: set[UUID]) -> int:
    deleted, _ = Upload.unscoped.filter(pk__in=keys).delete()
    check_result_delete(uploads=keys)
    for key in keys:
        path = upload_store().upload_path(key)
        transaction.on_commit(partial(path.unlink, missing_ok=True))
    return deleted
