"""Files that come in parts: announced, their parts taken in any order, put together, cancelled."""

import hashlib
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import BinaryIO, Final
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from tenants.accounts.models import ApiKey, Tenant, User
from tenants.audit.services import person
from tenants.base.advisory_lock import advisory_lock
from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.models import File, FilePurpose, PartedFile, PartedFileState, Upload
from tenants.datasets.selectors.uploads import uploads_unexpired
from tenants.datasets.services.files import file_create
from tenants.datasets.services.intake import clean_filename
from tenants.datasets.services.uploads import (
    MOST_AT_ONCE,
    upload_append,
    upload_create,
    upload_delete,
    upload_kept,
    uploads_spend,
)
from tenants.datasets.storage import CHUNK_BYTES, Readable, damaged
from tenants.usage.services.quotas import quota_lock

RETRY_AFTER_S: Final = 2


def parted_file_create(
    *,
    tenant: Tenant,
    purpose: str,
    filename: str,
    size: int,
    actor: User | ApiKey,
    life: timedelta | None = None,
) -> PartedFile:
    """Announce a file of ``size`` bytes; its parts count against the quota as they come. Raises
    ``file_too_large``, ``quota_exceeded`` (too many under way)."""
    limit = settings.HMI_UPLOAD_MAX_BYTES
    if size > limit:
        raise HmiError(
            ErrorCode.FILE_TOO_LARGE,
            f"{clean_filename(filename)} has {size:,} bytes; at most {limit:,} are taken.",
            param="bytes",
            details={"size": size, "limit": limit},
        )
    with transaction.atomic():
        quota_lock(tenant=tenant)
        _check_number(tenant)
        return _announce(tenant, purpose, filename, size, actor, life)


def _announce(
    tenant: Tenant, purpose: str, filename: str, size: int, actor: User | ApiKey, life: timedelta | None
) -> PartedFile:
    return PartedFile.unscoped.create(
        tenant=tenant,
        created_by=person(actor),
        api_key=actor if isinstance(actor, ApiKey) else None,
        purpose=FilePurpose(purpose),
        filename=clean_filename(filename),
        size_bytes=size,
        life_s=None if life is None else int(life.total_seconds()),
        expires_at=timezone.now() + timedelta(hours=settings.HMI_UPLOAD_LIFE_H),
    )


def part_add(*, parted: PartedFile, stream: Readable, size: int, actor: User | ApiKey) -> Upload:
    """Take a part, also one that is here already: a client whose answer was lost sends it again, and names
    the later one. Raises ``conflict`` when no more are taken, ``body_too_large`` for more than was announced
    of the whole, ``quota_exceeded``."""
    _require_pending(parted)
    if size > parted.size_bytes:
        raise HmiError(
            ErrorCode.BODY_TOO_LARGE,
            f"{parted.size_bytes:,} bytes were announced; this part has {size:,}.",
            param="data",
            details={"announced": parted.size_bytes, "part": size},
        )
    upload = upload_create(
        tenant=parted.tenant, filename=parted.filename, size=size, actor=actor, mark=parted.mark
    )
    upload_append(upload=upload, stream=stream, offset=0)
    return upload


def parted_file_complete(
    *, parted: PartedFile, parts: Sequence[UUID], actor: User | ApiKey, md5: str = ""
) -> File:
    """Put the parts together in this order; those that are not named are thrown away.

    Raises ``not_found`` (a part), ``conflict`` (no more pending), ``invalid_field`` (not as many bytes as
    announced), ``checksum_mismatch``, ``out_of_disk``, ``corrupt_artifact`` (a part is not what was sent),
    and ``conflict`` while another call does so. Not within a transaction.
    """
    with advisory_lock(f"upload {parted.pk}") as ours:
        if not ours:
            message = "This upload is being completed; ask again in a moment."
            raise HmiError(ErrorCode.CONFLICT, message, param="upload_id", retry_after=RETRY_AFTER_S)
        parted.refresh_from_db(fields=["state"])
        return _complete(parted, parts, actor, md5)


def _complete(parted: PartedFile, parts: Sequence[UUID], actor: User | ApiKey, md5: str) -> File:
    _require_pending(parted)
    there = {upload.pk: upload for upload in _parts(parted)}
    if missing := next((key for key in parts if key not in there), None):
        raise HmiError(
            ErrorCode.NOT_FOUND, f"There is no part {missing.hex} of this upload.", param="part_ids"
        )
    if len(set(parts)) != len(parts):
        raise HmiError(ErrorCode.INVALID_FIELD, "A part is named twice.", param="part_ids")
    chosen = [there[key] for key in parts]
    size = sum(upload.size_bytes for upload in chosen)
    if size != parted.size_bytes:
        message = f"The parts have {size:,} bytes; {parted.size_bytes:,} were announced."
        raise HmiError(ErrorCode.INVALID_FIELD, message, param="part_ids")

    def conclude(file: File) -> None:
        pending = PartedFile.unscoped.filter(pk=parted.pk, state=PartedFileState.PENDING)
        if not pending.update(state=PartedFileState.COMPLETED, file=file):
            raise _over()
        uploads_spend(there.values())

    return file_create(
        tenant=parted.tenant,
        purpose=parted.purpose,
        filename=parted.filename,
        stream=_Whole(chosen, md5),
        actor=actor,
        life=None if parted.life_s is None else timedelta(seconds=parted.life_s),
        frees_bytes=sum(upload.size_bytes for upload in there.values()),
        then=conclude,
    )


@transaction.atomic
def parted_file_cancel(*, parted: PartedFile) -> None:
    """Take no more parts, and throw away those that are here. ``conflict`` when it is not pending."""
    pending = PartedFile.unscoped.filter(pk=parted.pk, state=PartedFileState.PENDING)
    if not pending.update(state=PartedFileState.CANCELLED):
        raise _over()
    for upload in _parts(parted):
        upload_delete(upload=upload)


def parted_files_expire() -> int:
    """Forget those whose time is over, whatever became of them; their parts expire as uploads do."""
    return PartedFile.unscoped.filter(expires_at__lte=timezone.now()).delete()[0]


def _parts(parted: PartedFile) -> QuerySet[Upload]:
    return uploads_unexpired(parted.tenant).filter(mark=parted.mark)


class _Whole:
    """The parts one after the other, to be read once. At the end: ``checksum_mismatch`` unless they have this
    md5, where one is given."""

    def __init__(self, parts: Sequence[Upload], md5: str) -> None:
        self._pieces = _pieces(parts, md5)

    def read(self, _: int, /) -> bytes:
        """The next piece."""
        return next(self._pieces, b"")


def _pieces(parts: Sequence[Upload], md5: str) -> Iterator[bytes]:
    found = hashlib.md5(usedforsecurity=False)
    for part in parts:
        digest = hashlib.sha256()
        with _opened(part) as stream:
            while chunk := stream.read(CHUNK_BYTES):
                digest.update(chunk)
                if md5:
                    found.update(chunk)
                yield chunk
        if digest.hexdigest() != part.sha256:
            raise damaged(f"The part {part.pk.hex}")
    if md5 and found.hexdigest() != md5.lower():
        raise HmiError(
            ErrorCode.CHECKSUM_MISMATCH,
            f"The parts together have the md5 {found.hexdigest()}, not {md5}. They are still here.",
            param="md5",
        )


def _opened(part: Upload) -> BinaryIO:
    try:
        return upload_kept(part).path.open("rb")
    except FileNotFoundError:  # cancelled, or its time was over, while it was put together
        message = f"The part {part.pk.hex} was thrown away meanwhile. Send it again."
        raise HmiError(ErrorCode.CONFLICT, message, param="part_ids") from None


def _check_number(tenant: Tenant) -> None:
    pending = PartedFile.objects.for_tenant(tenant).filter(state=PartedFileState.PENDING)
    there = pending.filter(expires_at__gt=timezone.now()).count()
    if there >= MOST_AT_ONCE:
        raise HmiError(
            ErrorCode.QUOTA_EXCEEDED,
            f"{there} uploads are under way; complete or cancel some before you begin more.",
            details={"quota": "uploads", "limit": MOST_AT_ONCE, "used": there},
        )


def _require_pending(parted: PartedFile) -> None:
    if parted.state != PartedFileState.PENDING:
        raise _over()


def _over() -> HmiError:
    return HmiError(ErrorCode.CONFLICT, "This upload is completed or cancelled already.", param="upload_id")
