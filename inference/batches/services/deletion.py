"""Deleting a batch, with what was made for it and of it."""

import shutil
from collections.abc import Mapping
from contextlib import suppress
from typing import Final
from uuid import UUID

from django.db import transaction

from inference.batches.models import Batch, BatchForm, BatchState
from tenants.audit.services import Actor, audit_record
from tenants.base.advisory_lock import advisory_lock
from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.models import File
from tenants.datasets.services.files import file_delete
from tenants.webhooks.models import EventKind
from tenants.webhooks.services.events import endpoints_for, event_create, links_of


def batch_delete(*, batch: Batch, actor: Actor) -> None:
    """Forget it, with what it was answered and the inputs that were sent for it alone. A file of requests,
    which was there before, stays.

    Raises ``invalid_transition`` before it has ended and its files are kept, ``not_found`` when it is gone.
    """
    with advisory_lock(f"batch {batch.pk}") as ours, transaction.atomic():
        found = batch_hold(batch=batch)
        if found is None:
            raise HmiError(ErrorCode.NOT_FOUND, "There is no such batch.", param="batch_id")
        if found.is_active:
            message = f"The batch is {found.get_state_display().lower()}; cancel it first, or wait."
            raise HmiError(ErrorCode.INVALID_TRANSITION, message)
        if not (ours and found.files_ready):
            message = "The batch has ended, and its files are still being kept; ask again in a moment."
            raise HmiError(ErrorCode.INVALID_TRANSITION, message)
        files = [found.results, found.errors, found.input if found.form == BatchForm.INPUTS else None]
        detail = {"model": found.model} if found.model else {}
        audit_record(
            verb="batch.delete", subject=found.filename, tenant=found.tenant, actor=actor, detail=detail
        )
        folder = found.folder
        found.delete()
        for file in filter(None, files):
            with suppress(HmiError):  # another batch reads it
                file_delete(file=file, actor=actor)
        transaction.on_commit(lambda: shutil.rmtree(folder, ignore_errors=True))


def batch_hold(*, batch: Batch) -> Batch | None:
    """The batch as it is now, or None, its row locked, and before it those of its files, in the order of
    whoever deletes one of these."""
    rows = Batch.objects.for_tenant(batch.tenant).filter(pk=batch.pk)
    files = _files(rows.first())
    list(File.unscoped.select_for_update().filter(pk__in=files).order_by("pk"))
    held = rows.select_for_update(of=("self",)).select_related("tenant").first()
    if _files(held) - files:
        raise HmiError(
            ErrorCode.INVALID_TRANSITION, "Files of the batch are being kept; ask again in a moment."
        )
    return held


def _files(batch: Batch | None) -> set[UUID]:
    return {key for key in (batch.input_id, batch.results_id, batch.errors_id) if key} if batch else set()


ENDS: Final[Mapping[BatchState, EventKind]] = {
    BatchState.COMPLETED: EventKind.BATCH_COMPLETED,
    BatchState.FAILED: EventKind.BATCH_FAILED,
    BatchState.CANCELLED: EventKind.BATCH_CANCELLED,
    BatchState.EXPIRED: EventKind.BATCH_EXPIRED,
}


def batch_notify(*, batch: Batch) -> None:
    """A batch has ended."""
    kind = ENDS[BatchState(batch.state)]
    endpoints = endpoints_for(batch.tenant_id, kind)
    if not endpoints:
        return
    data = {
        **links_of(endpoints[0].tenant, batch=f"batches/{batch.pk}"),
        "batch": str(batch.pk),
        "state": str(batch.state),
        "error_code": batch.error_code or None,
        "model": batch.model_name or None,
        "version": batch.version_number,
    }
    event_create(endpoints=endpoints, kind=kind, data=data)
