"""Batches: begun, taken up, noted, ended. How the lines are answered is elsewhere (``inference.batches``)."""

import shutil
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F, QuerySet, Sum
from django.utils import timezone

from inference.batches.models import ACTIVE_BATCHES, Batch, BatchForm, BatchState
from inference.batches.services.deletion import batch_notify
from tenants.accounts.models import ApiKey, Tenant
from tenants.audit.services import Actor, audit_record, person
from tenants.base.dispatch import BATCHES_QUEUE, dispatch
from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.models import File, FilePurpose, Upload
from tenants.datasets.selectors.uploads import storage_used
from tenants.datasets.services.files import file_create
from tenants.datasets.services.uploads import upload_kept, uploads_spend
from tenants.datasets.storage import Readable
from tenants.usage.selectors import quota_of
from tenants.usage.services.quotas import quota_lock
from versiontree.tree.resolution import ResolvedModel, resolve_model

RUN_BATCH_TASK: Final = "batches.run"
MOST_AT_ONCE: Final = 10
"""Of one tenant; beyond that they would only wait."""
WINDOW: Final = timedelta(hours=24)
KEPT_FOR: Final = timedelta(days=30)
LOST_AFTER: Final = timedelta(seconds=30)
MOST_ATTEMPTS: Final = 5
"""So often it may be taken up without getting on."""
BEYOND_BYTES: Final = 1024**3
"""So far what a tenant's batches answer may go beyond its storage: no small answer is lost to a full one."""


def batch_create(
    *,
    tenant: Tenant,
    file: File,
    actor: Actor,
    model: str = "",
    form: str = BatchForm.INPUTS,
    endpoint: str = "",
    metadata: Mapping[str, Any] | None = None,
) -> Batch:
    """Have a model answer the lines of a file. Of ``requests`` the lines themselves say which model.

    An alias means the version that it has now. Raises ``not_found`` and ``model_not_ready``,
    ``invalid_field`` for a file that was not sent for this, ``quota_exceeded`` while too many others have not
    ended.
    """
    if file.purpose != FilePurpose.BATCH:
        message = f"This file was sent for {file.purpose}; that of a batch has the purpose batch."
        raise HmiError(ErrorCode.INVALID_FIELD, message, param="file")
    resolved = resolve_model(tenant, model) if form == BatchForm.INPUTS else None
    now = timezone.now()
    batch = Batch(
        tenant=tenant,
        created_by=person(actor),
        key_prefix=actor.prefix if isinstance(actor, ApiKey) else "",
        form=BatchForm(form),
        endpoint=endpoint,
        filename=file.filename,
        input=file,
        metadata=dict(metadata or {}),
        dispatched_at=now,
        expires_at=now + WINDOW,
        **_named(model, resolved),
    )
    with transaction.atomic():
        quota_lock(tenant=tenant)
        _check_number(tenant)
        batch.save(force_insert=True)
        _record("batch.create", batch, actor)
        transaction.on_commit(lambda: batch_dispatch(batch_id=batch.pk))
    return batch


def batch_send(
    *, tenant: Tenant, model: str, filename: str, stream: Readable | Upload, actor: Actor
) -> Batch:
    """Keep what the stream brings, or a complete upload, as a file, and have a model answer its lines.

    Raises what ``file_create`` and ``batch_create`` raise; then nothing is kept, and an upload stays.
    """
    resolve_model(tenant, model)  # before so much is read
    upload = stream if isinstance(stream, Upload) else None
    made: list[Batch] = []

    def then(file: File) -> None:
        if upload is not None:
            uploads_spend([upload])
        made.append(batch_create(tenant=tenant, file=file, actor=actor, model=model))

    file_create(
        tenant=tenant,
        purpose=FilePurpose.BATCH,
        filename=filename,
        stream=upload_kept(stream) if isinstance(stream, Upload) else stream,
        actor=actor,
        life=KEPT_FOR,
        frees_bytes=upload.size_bytes if upload else 0,
        then=then,
    )
    return made[0]


@transaction.atomic
def batch_cancel(*, batch: Batch, actor: Actor) -> Batch:
    """End it; what is done by now stays. Raises ``invalid_transition`` when it has ended."""
    if not _end(_active(batch.pk), BatchState.CANCELLED):
        batch.refresh_from_db()
        message = f"The batch is {batch.get_state_display().lower()}; it cannot be cancelled."
        raise HmiError(ErrorCode.INVALID_TRANSITION, message)
    _record("batch.cancel", batch, actor)
    transaction.on_commit(lambda: batch_dispatch(batch_id=batch.pk))
    batch.refresh_from_db()
    return batch


def batch_begin(*, batch_id: UUID) -> Batch | None:
    """The batch, about to be worked at, or one that has ended and whose files are still to be kept; None
    when there is nothing to do. Taken up too often without getting on, it fails."""
    now = timezone.now()
    _active(batch_id).filter(tenant__suspended_at=None).update(
        state=BatchState.RUNNING, attempts=F("attempts") + 1, dispatched_at=now
    )
    Batch.unscoped.filter(pk=batch_id, state=BatchState.RUNNING, started_at=None).update(started_at=now)
    batch = Batch.unscoped.select_related("tenant", "input").filter(pk=batch_id).first()
    if batch is None or batch.state == BatchState.WAITING:
        return None
    if batch.is_active and batch.attempts > MOST_ATTEMPTS:
        message = f"It ended {MOST_ATTEMPTS} times without getting on; the operator's log says why."
        batch_fail(batch=batch, error=HmiError(ErrorCode.JOB_CRASHED, message))
    if batch.is_active or batch.folder.exists():
        return batch
    return None


def batch_name(*, batch: Batch, model: str, resolved: ResolvedModel) -> None:
    """Which model its lines are for, once that was read in them."""
    named = _named(model, resolved)
    Batch.unscoped.filter(pk=batch.pk).update(**named)
    for name, value in named.items():
        setattr(batch, name, value)


def batch_note(*, batch: Batch, **reached: int) -> bool:
    """Write down how far it is: what is named must be on disk. False when it is wanted no more."""
    running = Batch.unscoped.filter(
        pk=batch.pk, state=BatchState.RUNNING, expires_at__gt=timezone.now(), tenant__suspended_at=None
    )
    if reached:
        reached |= {"attempts": 1}
        for name, value in reached.items():
            setattr(batch, name, value)
    return bool(running.update(dispatched_at=timezone.now(), **reached))


def batch_check_room(*, batch: Batch) -> None:
    """Raises ``quota_exceeded`` where what the tenant's batches have written goes more than ``BEYOND_BYTES``
    beyond its storage."""
    tenant, limit = batch.tenant, quota_of(batch.tenant).max_storage_bytes
    active = Batch.objects.for_tenant(tenant).filter(state__in=ACTIVE_BATCHES)
    written = active.aggregate(total=Sum(F("results_bytes") + F("errors_bytes")))["total"] or 0
    used = storage_used(tenant) + int(written)
    if used > limit + BEYOND_BYTES:
        raise HmiError(
            ErrorCode.QUOTA_EXCEEDED,
            f"The quota allows {limit:,} bytes of storage; with what batches answered {used:,} are taken.",
            details={"quota": "bytes of storage", "limit": limit, "used": used},
        )


def batch_rest(*, batch: Batch) -> None:
    """Give it back, to be gone on with later."""
    running = Batch.unscoped.filter(pk=batch.pk, state=BatchState.RUNNING)
    running.update(state=BatchState.WAITING, attempts=0, dispatched_at=timezone.now())


def batch_complete(*, batch: Batch) -> None:
    """Every line is answered."""
    _end(_active(batch.pk), BatchState.COMPLETED)


def batch_fail(*, batch: Batch, error: HmiError) -> None:
    """It cannot go on, for this reason; what is done by now stays."""
    _end(_active(batch.pk), BatchState.FAILED, error_code=str(error.code), error_message=error.message[:2000])
    batch.refresh_from_db()


def batch_expire(*, batch: Batch) -> bool:
    """End it if its time is over; whether it was."""
    return bool(_end(_active(batch.pk).filter(expires_at__lte=timezone.now()), BatchState.EXPIRED))


def batch_file(*, batch: Batch, **kept: File) -> None:
    """Which files have its ``results`` and its ``errors``."""
    Batch.unscoped.filter(pk=batch.pk).update(**kept)
    for name, file in kept.items():
        setattr(batch, name, file)


def batch_dispatch(*, batch_id: UUID) -> None:
    """Have a worker go on with a batch."""
    dispatch(RUN_BATCH_TASK, str(batch_id), queue=BATCHES_QUEUE)


def batches_dispatch_lost() -> None:
    """Ask again for all that nobody works at, and for those whose time is over."""
    now = timezone.now()
    _end(Batch.unscoped.filter(state__in=ACTIVE_BATCHES, expires_at__lte=now), BatchState.EXPIRED)
    lost = Batch.unscoped.filter(dispatched_at__lt=now - LOST_AFTER)
    for key in list(lost.filter(state__in=ACTIVE_BATCHES).values_list("pk", flat=True)):
        Batch.unscoped.filter(pk=key).update(dispatched_at=now)
        batch_dispatch(batch_id=key)
    for folder in _folders():
        if lost.filter(pk=folder.name).exclude(state__in=ACTIVE_BATCHES).update(dispatched_at=now):
            batch_dispatch(batch_id=UUID(folder.name))


def batches_delete_old() -> int:
    """Forget those that ended long ago, and what lies on disk of those that are gone; returns how many."""
    gone, _ = Batch.unscoped.filter(finished_at__lt=timezone.now() - KEPT_FOR).delete()
    for folder in _folders():
        if not Batch.unscoped.filter(pk=folder.name).exists():
            shutil.rmtree(folder, ignore_errors=True)
    return gone


def _folders() -> list[Path]:
    return list((Path(settings.HMI_UPLOAD_ROOT) / ".batches").glob("*-*-*-*-*"))


def _active(batch_id: UUID) -> QuerySet[Batch]:
    return Batch.unscoped.filter(pk=batch_id, state__in=ACTIVE_BATCHES)


@transaction.atomic
def _end(batches: QuerySet[Batch], state: BatchState, **why: str) -> int:
    """End those that are still as the query has them, and tell of it; returns how many."""
    locked = batches.order_by("pk").select_for_update(no_key=True)
    ended = Batch.unscoped.filter(pk__in=list(locked.values_list("pk", flat=True)))
    now = timezone.now()
    ended.update(state=state, finished_at=now, dispatched_at=now, **why)
    for batch in ended:
        batch_notify(batch=batch)
    return len(ended)


def _named(model: str, resolved: ResolvedModel | None) -> dict[str, Any]:
    if resolved is None:
        return {"model": model}
    return {
        "model": model,
        "model_name": resolved.model_name,
        "version_number": resolved.version_number,
    }


def _check_number(tenant: Tenant) -> None:
    there = Batch.objects.for_tenant(tenant).filter(state__in=ACTIVE_BATCHES).count()
    if there >= MOST_AT_ONCE:
        raise HmiError(
            ErrorCode.QUOTA_EXCEEDED,
            f"{there} batches wait or run; begin more when some of them have ended.",
            details={"quota": "batches", "limit": MOST_AT_ONCE, "used": there},
        )


def _record(verb: str, batch: Batch, actor: Actor) -> None:
    detail = {"model": batch.model} if batch.model else {}
    audit_record(verb=verb, subject=batch.filename, tenant=batch.tenant, actor=actor, detail=detail)
