"""Files that come in piece by piece: begun, continued, completed, thrown away, expired."""

import time
from base64 import b64decode
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final
from uuid import UUID

from django.conf import settings
from django.core.files import File as Local
from django.db import transaction
from django.utils import timezone

from tenants.accounts.models import ApiKey, Tenant, User
from tenants.audit.services import person
from tenants.base.disk import sync
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.upload_concurrency import release_database
from tenants.datasets.append_file import append, arrived, expect, pieces_of, seal, verified
from tenants.datasets.models import Upload
from tenants.datasets.selectors.uploads import uploads_in_use, uploads_unexpired
from tenants.datasets.services.check_results import check_result_delete
from tenants.datasets.services.intake import clean_filename
from tenants.datasets.storage import ARRIVING, Kept, Measured, Readable, measure, upload_store
from tenants.usage.services.quotas import quota_check_storage, quota_lock

MOST_AT_ONCE: Final = 100
"""Of one tenant: room on the disk is bounded by its quota, files by this."""

ORPHANED_AFTER_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Checksum:
    """What a piece must have: the algorithm by its name in ``hashlib``, the digest in base64."""

    algorithm: str
    digest: str


def upload_create(
    *,
    tenant: Tenant,
    filename: str,
    size: int,
    actor: User | ApiKey,
    promised_sha256: str = "",
    mark: str = "",
) -> Upload:
    """Begin an upload of ``size`` bytes, which count against the quota from now on.

    Raises ``file_too_large``, ``quota_exceeded``.
    """
    if size > settings.HMI_UPLOAD_MAX_BYTES:
        limit = settings.HMI_UPLOAD_MAX_BYTES
        raise HmiError(
            ErrorCode.FILE_TOO_LARGE,
            f"{clean_filename(filename)} has {size:,} bytes; at most {limit:,} are taken.",
            param="file",
            details={"size": size, "limit": limit},
        )
    upload = Upload(
        tenant=tenant,
        created_by=person(actor),
        api_key=actor if isinstance(actor, ApiKey) else None,
        filename=clean_filename(filename),
        mark=mark,
        size_bytes=size,
        promised_sha256=promised_sha256.lower(),
        expires_at=_expiry(),
    )
    with transaction.atomic():
        quota_lock(tenant=tenant)
        _check_number(tenant)
        quota_check_storage(tenant=tenant, adding_bytes=size)
        upload.save(force_insert=True)
    path = upload_store().incoming_path(upload.pk)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    if size == 0:
        upload_complete(upload=upload)
    return upload


def upload_receive(
    *, tenant: Tenant, filename: str, size: int, stream: Readable, actor: User | ApiKey
) -> Upload:
    """A whole file that came with a form, as an upload that is complete."""
    upload = upload_create(tenant=tenant, filename=filename, size=size, actor=actor)
    upload_append(upload=upload, stream=stream, offset=0)
    return upload


def upload_append(
    *,
    upload: Upload,
    stream: Readable,
    offset: int,
    checksum: Checksum | None = None,
    promised_sha256: str = "",
) -> int:
    """Take what the stream brings as the bytes from ``offset`` on; returns how many are here now.

    A stream that breaks off leaves what it brought, unless a checksum was to vouch for the whole piece. The
    last byte completes the upload. Raises ``conflict`` (another offset, or it is complete already),
    ``checksum_mismatch``, ``body_too_large`` and ``out_of_disk``.
    """
    if promised_sha256:
        Upload.unscoped.filter(pk=upload.pk).update(promised_sha256=promised_sha256.lower())
        upload.promised_sha256 = promised_sha256.lower()
    path = upload_store().incoming_path(upload.pk)
    pieces: Iterable[bytes] = pieces_of(stream)
    if not isinstance(stream, Local):
        release_database()
    if checksum is None:
        length = append(path, pieces, at=offset, most=upload.size_bytes)
    else:
        digest = _from_base64(checksum.digest, "Upload-Checksum")
        expect(path, offset)
        left = upload.size_bytes - offset
        with verified(pieces, path.parent, checksum.algorithm, digest, most=left) as whole:
            length = append(path, whole, at=offset, most=upload.size_bytes)
    upload.expires_at = _expiry()
    Upload.unscoped.filter(pk=upload.pk).update(expires_at=upload.expires_at)
    if length == upload.size_bytes:
        upload_complete(upload=upload)
    return length


def upload_complete(*, upload: Upload) -> None:
    """Compare a file that is all here with what was promised of it; more than once does no harm. From now on
    nobody writes to it.

    Raises ``conflict`` when something is missing; ``checksum_mismatch``, and then the upload is gone.
    """
    if upload.is_complete:
        return
    path = upload_store().incoming_path(upload.pk)
    here = arrived(path)
    if here != upload.size_bytes:
        raise HmiError(
            ErrorCode.CONFLICT,
            f"{upload.filename} is not here yet: {here:,} of {upload.size_bytes:,} bytes have arrived.",
            param="file",
            details={"offset": here, "size": upload.size_bytes},
        )
    seal(path, upload.size_bytes)
    sync(path)
    measured = measure(path)
    if upload.promised_sha256 not in ("", measured.sha256):
        upload_delete(upload=upload)
        raise HmiError(
            ErrorCode.CHECKSUM_MISMATCH,
            f"{upload.filename} arrived damaged: its sha256 is {measured.sha256} and should be"
            f" {upload.promised_sha256}. Nothing was kept; upload it again.",
            param="file",
            details={"found": measured.sha256, "promised": upload.promised_sha256},
        )
    upload.sha256, upload.completed_at = measured.sha256, timezone.now()
    Upload.unscoped.filter(pk=upload.pk, completed_at=None).update(
        sha256=upload.sha256, completed_at=upload.completed_at
    )


def upload_delete(*, upload: Upload) -> None:
    """Throw an upload away, whole or not, unless somebody else just did."""
    _remove({upload.pk})


def uploads_spend(uploads: Iterable[Upload]) -> None:
    """Remove the rows of uploads in the caller's transaction, and their files when it commits.

    Raises ``conflict`` where one is gone already: somebody else spent it meanwhile.
    """
    keys = {upload.pk for upload in uploads}
    if _remove(keys) != len(keys):
        raise HmiError(
            ErrorCode.CONFLICT, "These files were used or deleted meanwhile. Send them again.", param="file"
        )


def upload_kept(upload: Upload) -> Kept:
    """The file of an upload, completed if it only lacks that."""
    upload_complete(upload=upload)
    return Kept(upload_store().incoming_path(upload.pk), Measured(upload.sha256, upload.size_bytes))


def uploads_expire() -> int:
    """Throw away what nobody went on with in time, and files that no row speaks of; returns how many."""
    due = list(Upload.unscoped.filter(expires_at__lte=timezone.now()).exclude(pk__in=uploads_in_use()))
    for upload in due:
        with transaction.atomic():
            upload_delete(upload=upload)
    return len(due) + _sweep_orphans()


def _sweep_orphans() -> int:
    folder = upload_store().root / ARRIVING
    limit = time.time() - ORPHANED_AFTER_S
    old = []
    for path in folder.glob("*"):
        with suppress(FileNotFoundError):  # spent or deleted meanwhile
            if path.stat().st_mtime < limit:
                old.append(path)
    known = set(
        map(str, Upload.unscoped.filter(pk__in=filter(None, map(_key_of, old))).values_list("pk", flat=True))
    )
    orphans = [path for path in old if path.name not in known]
    for path in orphans:
        path.unlink(missing_ok=True)
    return len(orphans)


def _key_of(path: Path) -> UUID | None:
    try:
        return UUID(path.name)
    except ValueError:
        return None


def _check_number(tenant: Tenant) -> None:
    there = uploads_unexpired(tenant).count()
    if there >= MOST_AT_ONCE:
        raise HmiError(
            ErrorCode.QUOTA_EXCEEDED,
            f"{there} uploads are under way or unused; finish or delete some before you begin more.",
            details={"quota": "uploads", "limit": MOST_AT_ONCE, "used": there},
        )


def _expiry() -> datetime:
    return timezone.now() + timedelta(hours=settings.HMI_UPLOAD_LIFE_H)


def _from_base64(text: str, param: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError as error:
        raise HmiError(ErrorCode.INVALID_FIELD, f"{param} is not base64.", param=param) from error


def _remove(keys: set[UUID]) -> int:
    removed, _ = Upload.unscoped.filter(pk__in=keys).delete()
    check_result_delete(uploads=keys)
    transaction.on_commit(lambda: _unlink(keys))
    return removed


def _unlink(keys: Iterable[UUID]) -> None:
    for key in keys:
        upload_store().incoming_path(key).unlink(missing_ok=True)
