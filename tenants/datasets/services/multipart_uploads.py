"""Multipart uploads: a file is announced, its parts are uploaded in any order, then put together.

Each part is an upload of its own (``uploads``), so its bytes go the same way as those of the tus API.
"""

import hashlib
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import BinaryIO, Final
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from tenants.accounts.models import ApiKey, Tenant, User
from tenants.audit.services import person
from tenants.base.advisory_lock import advisory_lock
from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.models import File, FilePurpose, MultipartUpload, MultipartUploadState, Upload
from tenants.datasets.selectors.uploads import uploads_unexpired
from tenants.datasets.services.files import file_create
from tenants.datasets.services.stored_files import clean_filename
from tenants.datasets.services.uploads import (
    MAX_UPLOADS,
    upload_append,
    upload_check_size,
    upload_create,
    upload_delete,
    upload_expiry,
    upload_stored_file,
    uploads_consume,
)
from tenants.datasets.storage import CHUNK_BYTES, Readable, corrupt_file_error
from tenants.usage.services.quotas import quota_lock

RETRY_AFTER_S: Final = 2


def multipart_upload_create(
    *,
    tenant: Tenant,
    purpose: str,
    filename: str,
    size: int,
    actor: User | ApiKey,
    expires_after: timedelta | None = None,
) -> MultipartUpload:
    """Announce a file of ``size`` bytes. Its parts count towards the quota as they arrive.

    The completed file expires after ``expires_after``, or never. Raises ``file_too_large``, and
    ``quota_exceeded`` if too many uploads are pending.
    """
    upload_check_size(filename=filename, size=size, param="bytes")
    with transaction.atomic():
        quota_lock(tenant=tenant)
        _check_pending_count(tenant)
        return MultipartUpload.unscoped.create(
            tenant=tenant,
            created_by=person(actor),
            api_key=actor if isinstance(actor, ApiKey) else None,
            purpose=FilePurpose(purpose),
            filename=clean_filename(filename),
            size_bytes=size,
            expires_after_s=None if expires_after is None else int(expires_after.total_seconds()),
            expires_at=upload_expiry(),
        )


def part_create(
    *, multipart_upload: MultipartUpload, stream: Readable, size: int, actor: User | ApiKey
) -> Upload:
    """Upload a part. A client that got no response may send it again, and completes with the later one.

    Raises ``conflict`` if the upload is not pending, ``body_too_large`` if the part exceeds the size that was
    announced for the file, ``quota_exceeded``.
    """
    _check_pending(multipart_upload)
    if size > multipart_upload.size_bytes:
        raise HmiError(
            ErrorCode.BODY_TOO_LARGE,
            f"{multipart_upload.size_bytes:,} bytes were announced; this part has {size:,}.",
            param="data",
            details={"announced": multipart_upload.size_bytes, "part": size},
        )
    upload = upload_create(
        tenant=multipart_upload.tenant,
        filename=multipart_upload.filename,
        size=size,
        actor=actor,
        fingerprint=multipart_upload.part_fingerprint,
    )
    upload_append(upload=upload, stream=stream, offset=0)
    return upload


def multipart_upload_complete(
    *, multipart_upload: MultipartUpload, part_ids: Sequence[UUID], actor: User | ApiKey, md5: str = ""
) -> File:
    """Make a file of the parts in this order. Parts that are not named are deleted.

    Raises ``not_found`` (a part), ``conflict`` (not pending, or another call completes it), ``invalid_field``
    (the sizes do not add up to what was announced), ``checksum_mismatch``, ``out_of_disk``,
    ``corrupt_artifact`` (a part was changed on disk). Must not be called in a transaction.
    """
    with advisory_lock(f"upload {multipart_upload.pk}") as acquired:
        if not acquired:
            message = "This upload is being completed. Try again in a moment."
            raise HmiError(ErrorCode.CONFLICT, message, param="upload_id", retry_after=RETRY_AFTER_S)
        multipart_upload.refresh_from_db(fields=["state"])
        return _complete(multipart_upload, part_ids, actor, md5)


def _complete(
    multipart_upload: MultipartUpload, part_ids: Sequence[UUID], actor: User | ApiKey, md5: str
) -> File:
    _check_pending(multipart_upload)
    uploads = {upload.pk: upload for upload in _parts(multipart_upload)}
    if missing := next((key for key in part_ids if key not in uploads), None):
        raise HmiError(
            ErrorCode.NOT_FOUND, f"There is no part {missing.hex} of this upload.", param="part_ids"
        )
    if len(set(part_ids)) != len(part_ids):
        raise HmiError(ErrorCode.INVALID_FIELD, "A part is listed twice.", param="part_ids")
    parts = [uploads[key] for key in part_ids]
    size = sum(part.size_bytes for part in parts)
    if size != multipart_upload.size_bytes:
        message = f"The parts have {size:,} bytes; {multipart_upload.size_bytes:,} were announced."
        raise HmiError(ErrorCode.INVALID_FIELD, message, param="part_ids")

    def on_stored(file: File) -> None:
        pending = MultipartUpload.unscoped.filter(pk=multipart_upload.pk, state=MultipartUploadState.PENDING)
        if not pending.update(state=MultipartUploadState.COMPLETED, file=file):
            raise _not_pending()
        uploads_consume(uploads.values())

    seconds = multipart_upload.expires_after_s
    return file_create(
        tenant=multipart_upload.tenant,
        purpose=multipart_upload.purpose,
        filename=multipart_upload.filename,
        stream=_PartStream(parts, md5),
        actor=actor,
        expires_after=None if seconds is None else timedelta(seconds=seconds),
        released_bytes=sum(upload.size_bytes for upload in uploads.values()),
        on_stored=on_stored,
    )


@transaction.atomic
def multipart_upload_cancel(*, multipart_upload: MultipartUpload) -> None:
    """Cancel the upload and delete its parts. ``conflict`` if it is not pending."""
    pending = MultipartUpload.unscoped.filter(pk=multipart_upload.pk, state=MultipartUploadState.PENDING)
    if not pending.update(state=MultipartUploadState.CANCELLED):
        raise _not_pending()
    for upload in _parts(multipart_upload):
        upload_delete(upload=upload)


def multipart_uploads_expire() -> int:
    """Delete expired multipart uploads in any state; returns how many. Parts expire as uploads do."""
    return MultipartUpload.unscoped.filter(expires_at__lte=timezone.now()).delete()[0]


def _parts(multipart_upload: MultipartUpload) -> QuerySet[Upload]:
    return uploads_unexpired(multipart_upload.tenant).filter(fingerprint=multipart_upload.part_fingerprint)


class _PartStream:
    """The bytes of all parts in order, read once. ``checksum_mismatch`` at the end if the md5 differs."""

    def __init__(self, parts: Sequence[Upload], md5: str) -> None:
        self._chunks = _read_parts(parts, md5)

    def read(self, _: int, /) -> bytes:
        return next(self._chunks, b"")


def _read_parts(parts: Sequence[Upload], expected_md5: str) -> Iterator[bytes]:
    md5 = hashlib.md5(usedforsecurity=False)
    for part in parts:
        sha256 = hashlib.sha256()
        with _open(part) as stream:
            while chunk := stream.read(CHUNK_BYTES):
                sha256.update(chunk)
                if expected_md5:
                    md5.update(chunk)
                yield chunk
        if sha256.hexdigest() != part.sha256:
            raise corrupt_file_error(f"The part {part.pk.hex}")
    if expected_md5 and md5.hexdigest() != expected_md5.lower():
        raise HmiError(
            ErrorCode.CHECKSUM_MISMATCH,
            f"The parts together have the md5 {md5.hexdigest()}, not {expected_md5}. No part was deleted.",
            param="md5",
        )


def _open(part: Upload) -> BinaryIO:
    try:
        return upload_stored_file(part).path.open("rb")
    except FileNotFoundError:  # cancelled or expired during completion
        message = f"The part {part.pk.hex} was deleted. Upload it again."
        raise HmiError(ErrorCode.CONFLICT, message, param="part_ids") from None


def _check_pending_count(tenant: Tenant) -> None:
    pending = MultipartUpload.objects.for_tenant(tenant).filter(state=MultipartUploadState.PENDING)
    count = pending.filter(expires_at__gt=timezone.now()).count()
    if count >= MAX_UPLOADS:
        raise HmiError(
            ErrorCode.QUOTA_EXCEEDED,
            f"{count} uploads are pending. Complete or cancel some before you start more.",
            details={"quota": "uploads", "limit": MAX_UPLOADS, "used": count},
        )


def _check_pending(multipart_upload: MultipartUpload) -> None:
    if multipart_upload.state != MultipartUploadState.PENDING:
        raise _not_pending()


def _not_pending() -> HmiError:
    message = "This upload is already completed or canceled."
    return HmiError(ErrorCode.CONFLICT, message, param="upload_id")
