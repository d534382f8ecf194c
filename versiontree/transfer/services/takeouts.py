"""Takeouts: request, start, finish, fail, redispatch and expire them. ``takeout_writer`` writes the files."""

from datetime import timedelta
from pathlib import Path
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F, Q
from django.utils import timezone

from tenants.accounts.models import Tenant
from tenants.audit.services import Actor, audit_record, person
from tenants.base.dispatch import UPLOADS_QUEUE, dispatch
from tenants.base.errors import ErrorCode, HmiError
from versiontree.transfer.models import ACTIVE_TAKEOUTS, Takeout, TakeoutState

WRITE_TAKEOUT_TASK: Final = "transfer.write_takeout"
TAKEOUT_RETENTION: Final = timedelta(days=7)
MAX_ATTEMPTS: Final = 3
REDISPATCH_AFTER: Final = timedelta(seconds=30)
"""A takeout that is not finished this long after its last message gets another one."""


@transaction.atomic
def takeout_request(*, tenant: Tenant, actor: Actor) -> Takeout:
    """Create a takeout and send it to a worker. Raises ``conflict`` while another one is active."""
    takeout = Takeout(tenant=tenant, created_by=person(actor), dispatched_at=timezone.now())
    try:
        with transaction.atomic():
            takeout.save(force_insert=True)
    except IntegrityError as error:
        message = "An export of all data is already running. Wait until it has ended."
        raise HmiError(ErrorCode.CONFLICT, message) from error
    audit_record(verb="tenant.export", subject=tenant.slug, tenant=tenant, actor=actor)
    transaction.on_commit(lambda: _dispatch(takeout.pk))
    return takeout


@transaction.atomic
def takeout_record_download(*, takeout: Takeout, actor: Actor) -> None:
    """Record the download in the audit log."""
    audit_record(
        verb="tenant.fetch",
        subject=takeout.tenant.slug,
        tenant=takeout.tenant,
        actor=actor,
        detail={"size_bytes": takeout.written_bytes},
    )


def takeouts_redispatch() -> None:
    """Send another message for each takeout that is not finished. A worker skips one that another writes."""
    now = timezone.now()
    due = Takeout.unscoped.filter(state__in=ACTIVE_TAKEOUTS, dispatched_at__lt=now - REDISPATCH_AFTER)
    for key in list(due.values_list("pk", flat=True)):
        Takeout.unscoped.filter(pk=key).update(dispatched_at=now)
        _dispatch(key)


def takeouts_expire() -> int:
    """Delete expired and old failed takeouts, and files without a row. Returns how many takeouts."""
    due = Q(expires_at__lte=timezone.now()) | Q(
        state=TakeoutState.FAILED, finished_at__lte=timezone.now() - TAKEOUT_RETENTION
    )
    deleted = _delete(list(Takeout.unscoped.filter(due)))
    known = {str(key) for key in Takeout.unscoped.values_list("pk", flat=True)}
    for path in Path(settings.HMI_EXPORT_ROOT).glob("*.zip*"):
        if path.name.partition(".")[0] not in known:
            path.unlink(missing_ok=True)
    return deleted


def takeout_start(*, takeout_id: UUID) -> Takeout | None:
    """Mark a takeout as running and return it. None if it has ended, or fails after its last attempt."""
    active = Takeout.unscoped.filter(pk=takeout_id, state__in=ACTIVE_TAKEOUTS)
    if not active.update(state=TakeoutState.RUNNING, attempts=F("attempts") + 1, written_bytes=0):
        return None
    takeout = Takeout.unscoped.select_related("tenant").get(pk=takeout_id)
    if takeout.attempts > MAX_ATTEMPTS:
        message = f"The export failed {MAX_ATTEMPTS} times. The server log has the details."
        takeout_fail(takeout=takeout, message=message)
        return None
    return takeout


def takeout_progress(*, takeout: Takeout, written: int, expected: int) -> bool:
    """Store how many bytes are written. False if the takeout is not running any more."""
    running = Takeout.unscoped.filter(pk=takeout.pk, state=TakeoutState.RUNNING)
    return bool(running.update(written_bytes=written, expected_bytes=expected))


def takeout_finish(*, takeout: Takeout, size: int) -> None:
    """Mark a takeout as ready, and delete the earlier ones of the tenant."""
    now = timezone.now()
    running = Takeout.unscoped.filter(pk=takeout.pk, state=TakeoutState.RUNNING)
    running.update(
        state=TakeoutState.READY,
        written_bytes=size,
        expected_bytes=size,
        finished_at=now,
        expires_at=now + TAKEOUT_RETENTION,
    )
    earlier = Takeout.objects.for_tenant(takeout.tenant).exclude(pk=takeout.pk)
    _delete(list(earlier.exclude(state__in=ACTIVE_TAKEOUTS)))


def takeout_fail(*, takeout: Takeout, message: str) -> None:
    """Mark a takeout as failed."""
    running = Takeout.unscoped.filter(pk=takeout.pk, state__in=ACTIVE_TAKEOUTS)
    running.update(state=TakeoutState.FAILED, error_message=message, finished_at=timezone.now())


def takeout_path(takeout: Takeout) -> Path:
    """The path of its file, whether or not it exists."""
    return Path(settings.HMI_EXPORT_ROOT) / f"{takeout.pk}.zip"


def takeout_files_delete(*, tenant: Tenant) -> None:
    """Delete the files of the tenant's takeouts; their rows stay."""
    for takeout in Takeout.objects.for_tenant(tenant):
        takeout_path(takeout).unlink(missing_ok=True)


def _dispatch(takeout_id: UUID) -> None:
    dispatch(WRITE_TAKEOUT_TASK, str(takeout_id), queue=UPLOADS_QUEUE)


def _delete(takeouts: list[Takeout]) -> int:
    for takeout in takeouts:
        takeout_path(takeout).unlink(missing_ok=True)
    return Takeout.unscoped.filter(pk__in=[takeout.pk for takeout in takeouts]).delete()[0]
