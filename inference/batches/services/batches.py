"""Creating, cancelling and deleting batches."""

import shutil
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from inference.batches.batch_model import check_first_line
from inference.batches.models import ACTIVE_BATCHES, RETENTION, Batch, BatchFormat, BatchState
from inference.batches.services.lifecycle import active_batch, batches_end
from inference.batches.tables import check_table, is_table
from tenants.accounts.models import ApiKey, Tenant
from tenants.audit.services import Actor, audit_record, person
from tenants.base.advisory_lock import advisory_lock
from tenants.base.background_jobs import BackgroundKind
from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.formats.lines import Source
from tenants.datasets.models import File, FilePurpose, Upload
from tenants.datasets.services.files import file_create, file_delete
from tenants.datasets.services.stored_files import clean_filename
from tenants.datasets.services.uploads import upload_stored_file, uploads_consume
from tenants.datasets.storage import Readable, stored_open
from tenants.usage.services.quotas import quota_lock
from versiontree.jobs.services.background import background_job_create
from versiontree.tree.resolution import resolve_model

MAX_ACTIVE_BATCHES: Final = 10
"""Of one tenant."""
COMPLETION_WINDOW: Final = timedelta(hours=24)


def batch_create(
    *,
    tenant: Tenant,
    file: File,
    actor: Actor,
    model: str,
    line_format: str = BatchFormat.INPUTS,
    endpoint: str = "",
    metadata: Mapping[str, Any] | None = None,
    columns: Mapping[str, str] | None = None,
) -> Batch:
    """Create a batch from a file whose first line was checked, and the job that works through it.

    ``columns``: of a table, as `check_table` returns them. An alias is resolved now. Raises ``not_found`` and
    ``model_not_ready``, ``invalid_field`` for a file of another purpose, ``quota_exceeded`` while
    MAX_ACTIVE_BATCHES are active.
    """
    _check_purpose(file)
    resolved = resolve_model(tenant, model)
    batch = Batch(
        tenant=tenant,
        created_by=person(actor),
        key_prefix=actor.prefix if isinstance(actor, ApiKey) else "",
        line_format=BatchFormat(line_format),
        endpoint=endpoint,
        model=model,
        model_name=resolved.model_name,
        version_number=resolved.version_number,
        filename=file.filename,
        input=file,
        metadata=dict(metadata or {}),
        columns=dict(columns or {}),
        expires_at=timezone.now() + COMPLETION_WINDOW,
    )
    with transaction.atomic():
        quota_lock(tenant=tenant)
        _check_active_count(tenant)
        batch.save(force_insert=True)
        _audit("batch.create", batch, actor)
        background_job_create(BackgroundKind.BATCH, str(batch.pk), tenant)
    return batch


def batch_create_of_requests(
    *, tenant: Tenant, file: File, endpoint: str, metadata: Mapping[str, Any] | None, actor: Actor
) -> Batch:
    """Create a batch from a file of requests to an endpoint, for the model that the first one names.

    Raises what `check_first_line` and `batch_create` raise.
    """
    _check_purpose(file)
    with stored_open(file.sha256) as lines:
        model = check_first_line(
            lines, tenant=tenant, line_format=BatchFormat.REQUESTS, endpoint=endpoint
        ).reference
    return batch_create(
        tenant=tenant,
        file=file,
        actor=actor,
        model=model,
        line_format=BatchFormat.REQUESTS,
        endpoint=endpoint,
        metadata=metadata,
    )


def batch_submit(
    *,
    tenant: Tenant,
    model: str,
    filename: str,
    stream: Readable | Upload,
    actor: Actor,
    columns: Mapping[str, str] | None = None,
) -> Batch:
    """Store a stream or a complete upload as a file, and create a batch of it.

    A file is a table if it has ``columns``, or else by its name: CSV, TSV, or plain text. Raises what
    ``file_create``, `check_first_line`, `check_table` and ``batch_create`` raise; then nothing is stored, and
    an upload stays.
    """
    resolved = resolve_model(tenant, model)  # before so much is read
    upload = stream if isinstance(stream, Upload) else None
    created: list[Batch] = []
    found: dict[str, str] = {}

    def check(path: Path) -> None:
        source = Source(path, clean_filename(filename))
        if columns or is_table(source):
            found.update(check_table(source, resolved, columns or {}))
            return
        with path.open("rb") as lines:
            check_first_line(lines, tenant=tenant, line_format=BatchFormat.INPUTS, model=model)

    def on_stored(file: File) -> None:
        if upload is not None:
            uploads_consume([upload])
        created.append(batch_create(tenant=tenant, file=file, actor=actor, model=model, columns=found))

    file_create(
        tenant=tenant,
        purpose=FilePurpose.BATCH,
        filename=filename,
        stream=upload_stored_file(stream) if isinstance(stream, Upload) else stream,
        actor=actor,
        expires_after=RETENTION,
        released_bytes=upload.size_bytes if upload else 0,
        check=check,
        on_stored=on_stored,
    )
    return created[0]


@transaction.atomic
def batch_cancel(*, batch: Batch, actor: Actor) -> Batch:
    """Cancel the batch; its results until now stay. Raises ``invalid_transition`` if it has ended."""
    if not batches_end(active_batch(batch.pk), BatchState.CANCELLED):
        batch.refresh_from_db()
        message = f"The batch is {batch.get_state_display().lower()}; it cannot be canceled."
        raise HmiError(ErrorCode.INVALID_TRANSITION, message)
    _audit("batch.cancel", batch, actor)
    batch.refresh_from_db()
    return batch


def batch_delete(*, batch: Batch, actor: Actor) -> None:
    """Delete the batch, its output files, and the input that was sent for it alone. A file of requests stays.

    Raises ``invalid_transition`` before it has ended and its output is stored, ``not_found`` if it is gone.
    """
    with advisory_lock(f"batch {batch.pk}") as acquired, transaction.atomic():
        found = batch_lock(batch=batch)
        if found is None:
            raise HmiError(ErrorCode.NOT_FOUND, "There is no such batch.", param="batch_id")
        if found.is_active:
            message = f"The batch is {found.get_state_display().lower()}; cancel it first, or wait."
            raise HmiError(ErrorCode.INVALID_TRANSITION, message)
        if not (acquired and found.files_ready):
            message = "The results of the batch are being stored; try again in a moment."
            raise HmiError(ErrorCode.INVALID_TRANSITION, message)
        files = [
            found.results,
            found.errors,
            found.input if found.line_format == BatchFormat.INPUTS else None,
        ]
        _audit("batch.delete", found, actor)
        folder = found.folder
        found.delete()
        for file in filter(None, files):
            with suppress(HmiError):  # another batch reads it
                file_delete(file=file, actor=actor)
        transaction.on_commit(lambda: shutil.rmtree(folder, ignore_errors=True))


def batch_lock(*, batch: Batch) -> Batch | None:
    """Lock the rows of the batch's files, then its own, and return it as it is now. None if it is gone.

    Whoever deletes a file locks in the same order. Raises ``invalid_transition`` if a file was attached
    meanwhile.
    """
    rows = Batch.objects.for_tenant(batch.tenant).filter(pk=batch.pk)
    files = _file_ids(rows.first())
    list(File.unscoped.select_for_update().filter(pk__in=files).order_by("pk"))
    locked = rows.select_for_update(of=("self",)).select_related("tenant").first()
    if _file_ids(locked) - files:
        message = "The results of the batch are being stored; try again in a moment."
        raise HmiError(ErrorCode.INVALID_TRANSITION, message)
    return locked


def _file_ids(batch: Batch | None) -> set[UUID]:
    return {key for key in (batch.input_id, batch.results_id, batch.errors_id) if key} if batch else set()


def _check_purpose(file: File) -> None:
    if file.purpose != FilePurpose.BATCH:
        message = f"This file has the purpose {file.purpose}. A batch needs a file with the purpose batch."
        raise HmiError(ErrorCode.INVALID_FIELD, message, param="file")


def _check_active_count(tenant: Tenant) -> None:
    active = Batch.objects.for_tenant(tenant).filter(state__in=ACTIVE_BATCHES).count()
    if active >= MAX_ACTIVE_BATCHES:
        raise HmiError(
            ErrorCode.QUOTA_EXCEEDED,
            f"{active} batches are waiting or running. Create more when some of them have ended.",
            details={"quota": "batches", "limit": MAX_ACTIVE_BATCHES, "used": active},
        )


def _audit(verb: str, batch: Batch, actor: Actor) -> None:
    detail = {"model": batch.model}
    audit_record(verb=verb, subject=batch.filename, tenant=batch.tenant, actor=actor, detail=detail)
