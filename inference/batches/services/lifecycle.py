"""The states of a batch as its worker changes them, and retention of batches.

See ``Batch`` for the transitions. Each is a compare-and-set, and each end sends a webhook.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F, QuerySet, Sum
from django.db.models.functions import Coalesce, Now
from django.utils import timezone

from inference.batches.models import ACTIVE_BATCHES, RETENTION, Batch, BatchState
from tenants.accounts.models import Tenant
from tenants.base.background_jobs import BackgroundKind
from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.models import File
from tenants.usage.selectors import quota_of, storage_used_bytes
from tenants.webhooks.models import EventKind
from tenants.webhooks.services.events import event_create, event_links, subscribed_endpoints
from versiontree.jobs.services.background import background_job_create

STORAGE_OVERDRAFT_BYTES: Final = 1024**3
"""Output of batches may exceed the quota of storage by this much, so that small results are not lost."""
EVENT_KINDS: Final[Mapping[BatchState, EventKind]] = {
    BatchState.COMPLETED: EventKind.BATCH_COMPLETED,
    BatchState.FAILED: EventKind.BATCH_FAILED,
    BatchState.CANCELLED: EventKind.BATCH_CANCELLED,
    BatchState.EXPIRED: EventKind.BATCH_EXPIRED,
}


def batch_start(*, batch_id: UUID) -> Batch | None:
    """Mark an active batch as running, unless its tenant is suspended. Returns the batch, None if it is
    gone."""
    active_batch(batch_id).filter(tenant__suspended_at=None).update(
        state=BatchState.RUNNING, started_at=Coalesce("started_at", Now())
    )
    return Batch.unscoped.select_related("tenant", "input").filter(pk=batch_id).first()


def batch_save_progress(*, batch: Batch, **progress: int) -> bool:
    """Save the progress, which must be on disk. False if the batch must not go on."""
    running = Batch.unscoped.filter(
        pk=batch.pk, state=BatchState.RUNNING, expires_at__gt=timezone.now(), tenant__suspended_at=None
    )
    for name, value in progress.items():
        setattr(batch, name, value)
    return bool(running.update(**progress)) if progress else running.exists()


def batch_check_storage_quota(*, batch: Batch) -> None:
    """Raise ``quota_exceeded`` if the output of the tenant's batches exceeds its quota of storage by more
    than STORAGE_OVERDRAFT_BYTES."""
    tenant, limit = batch.tenant, quota_of(batch.tenant).max_storage_bytes
    active = Batch.objects.for_tenant(tenant).filter(state__in=ACTIVE_BATCHES)
    written = active.aggregate(total=Sum(F("results_bytes") + F("errors_bytes")))["total"] or 0
    used = storage_used_bytes(tenant) + int(written)
    if used > limit + STORAGE_OVERDRAFT_BYTES:
        raise HmiError(
            ErrorCode.QUOTA_EXCEEDED,
            f"Quota exceeded: {limit:,} bytes of storage allowed, {used:,} used with the results of batches.",
            details={"quota": "bytes of storage", "limit": limit, "used": used},
        )


def batch_pause(*, batch: Batch) -> None:
    """Set a running batch back to waiting."""
    Batch.unscoped.filter(pk=batch.pk, state=BatchState.RUNNING).update(state=BatchState.WAITING)


def batch_complete(*, batch: Batch) -> None:
    """End the batch: every line is answered."""
    batches_end(active_batch(batch.pk), BatchState.COMPLETED)


def batch_fail(*, batch: Batch, error: HmiError) -> None:
    """End the batch with an error; its details may name the ``line``. The results until now stay."""
    batches_end(
        active_batch(batch.pk),
        BatchState.FAILED,
        error_code=str(error.code),
        error_message=error.message[:2000],
        error_param=(error.param or "")[:64],
        error_line=(error.details or {}).get("line"),
    )
    batch.refresh_from_db()


def batch_expire(*, batch: Batch) -> bool:
    """End the batch if it has expired. Whether it was ended."""
    return bool(
        batches_end(active_batch(batch.pk).filter(expires_at__lte=timezone.now()), BatchState.EXPIRED)
    )


def batch_attach_file(batch: Batch, kind: str, file: File) -> None:
    """Save the stored file with the ``results`` or ``errors`` of a batch."""
    saved = {kind: file, f"{kind}_bytes": file.size_bytes}
    Batch.unscoped.filter(pk=batch.pk).update(**saved)
    for name, value in saved.items():
        setattr(batch, name, value)


def batch_end_with_job(batch_id: str, code: str, message: str) -> None:
    """End the batch whose job was cancelled, or failed, and have another job store its results until then.
    ``BackgroundWork.on_failure`` of batches."""
    if code == ErrorCode.JOB_CANCELLED:  # all data of its tenant is deleted
        batches_end(active_batch(UUID(batch_id)), BatchState.CANCELLED)
        return
    batch = Batch.unscoped.select_related("tenant").filter(pk=batch_id).first()
    if batch is None:
        return
    batch_fail(batch=batch, error=HmiError(ErrorCode(code), message))
    if batch.folder.exists():  # also of a batch that had ended before
        background_job_create(BackgroundKind.BATCH, batch_id, batch.tenant)


def batches_expire() -> None:
    """End the active batches that have expired."""
    expired = Batch.unscoped.filter(state__in=ACTIVE_BATCHES, expires_at__lte=timezone.now())
    batches_end(expired, BatchState.EXPIRED)


def batches_delete_expired() -> int:
    """Delete batches that ended more than RETENTION ago, and folders of deleted batches. Returns how many."""
    deleted, _ = Batch.unscoped.filter(finished_at__lt=timezone.now() - RETENTION).delete()
    for folder in (Path(settings.HMI_UPLOAD_ROOT) / ".batches").glob("*-*-*-*-*"):
        if not Batch.unscoped.filter(pk=folder.name).exists():
            shutil.rmtree(folder, ignore_errors=True)
    return deleted


def batch_folders_delete(tenant: Tenant) -> None:
    """Delete the output of a tenant's batches that is not stored yet."""
    for batch in Batch.objects.for_tenant(tenant):
        shutil.rmtree(batch.folder, ignore_errors=True)


def active_batch(batch_id: UUID) -> QuerySet[Batch]:
    """The batch, unless it has ended."""
    return Batch.unscoped.filter(pk=batch_id, state__in=ACTIVE_BATCHES)


@transaction.atomic
def batches_end(batches: QuerySet[Batch], state: BatchState, **error: str | int | None) -> int:
    """End the batches that still match the query, and send webhooks. Returns how many."""
    locked = batches.order_by("pk").select_for_update(no_key=True)
    ended = Batch.unscoped.filter(pk__in=list(locked.values_list("pk", flat=True)))
    ended.update(state=state, finished_at=timezone.now(), **error)
    for batch in ended:
        _notify(batch)
    return len(ended)


def _notify(batch: Batch) -> None:
    """Create the webhook event of a batch that has ended."""
    kind = EVENT_KINDS[BatchState(batch.state)]
    endpoints = subscribed_endpoints(batch.tenant_id, kind)
    if not endpoints:
        return
    data = {
        **event_links(endpoints[0].tenant, batch=f"batches/{batch.pk}"),
        "batch": str(batch.pk),
        "state": str(batch.state),
        "error_code": batch.error_code or None,
        "model": batch.model_name or None,
        "version": batch.version_number,
    }
    event_create(endpoints=endpoints, kind=kind, data=data)
