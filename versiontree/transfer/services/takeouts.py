"""All data of a tenant in one file: asked for, made by a worker
(``versiontree.transfer.services.takeout_writer``), kept for a week."""

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
KEPT_FOR: Final = timedelta(days=7)
MAX_ATTEMPTS: Final = 3
LOST_AFTER: Final = timedelta(seconds=30)
"""One whose message is older gets another; while a worker has it, that one comes to nothing."""


@transaction.atomic
def takeout_request(*, tenant: Tenant, actor: Actor) -> Takeout:
    """Have all data of the tenant put into a file. While one is being made: ``conflict``."""
    takeout = Takeout(tenant=tenant, created_by=person(actor), dispatched_at=timezone.now())
    try:
        with transaction.atomic():
            takeout.save(force_insert=True)
    except IntegrityError as error:
        message = "An export of all data is being made already; wait until it is there."
        raise HmiError(ErrorCode.CONFLICT, message) from error
    audit_record(verb="tenant.export", subject=tenant.slug, tenant=tenant, actor=actor)
    transaction.on_commit(lambda: _dispatch(takeout.pk))
    return takeout


@transaction.atomic
def takeout_fetch(*, takeout: Takeout, actor: Actor) -> None:
    """Write down who takes the file away."""
    audit_record(
        verb="tenant.fetch",
        subject=takeout.tenant.slug,
        tenant=takeout.tenant,
        actor=actor,
        detail={"size_bytes": takeout.written_bytes},
    )


def takeouts_redispatch() -> None:
    """Ask again for all that nobody has finished; a worker leaves alone what another works on."""
    now = timezone.now()
    due = Takeout.unscoped.filter(state__in=ACTIVE_TAKEOUTS, dispatched_at__lt=now - LOST_AFTER)
    for key in list(due.values_list("pk", flat=True)):
        Takeout.unscoped.filter(pk=key).update(dispatched_at=now)
        _dispatch(key)


def takeouts_expire() -> int:
    """Delete files that are older than a week, what failed then, and files that no row speaks of; returns how
    many takeouts went."""
    due = Q(expires_at__lte=timezone.now()) | Q(
        state=TakeoutState.FAILED, finished_at__lte=timezone.now() - KEPT_FOR
    )
    gone = _delete(list(Takeout.unscoped.filter(due)))
    known = {str(key) for key in Takeout.unscoped.values_list("pk", flat=True)}
    for path in Path(settings.HMI_EXPORT_ROOT).glob("*.zip*"):
        if path.name.partition(".")[0] not in known:
            path.unlink(missing_ok=True)
    return gone


def takeout_start(*, takeout_id: UUID) -> Takeout | None:
    """The takeout, about to be made; None when it is gone or has ended. Begun too often without an end, it
    fails."""
    active = Takeout.unscoped.filter(pk=takeout_id, state__in=ACTIVE_TAKEOUTS)
    if not active.update(state=TakeoutState.RUNNING, attempts=F("attempts") + 1, written_bytes=0):
        return None
    takeout = Takeout.unscoped.select_related("tenant").get(pk=takeout_id)
    if takeout.attempts > MAX_ATTEMPTS:
        message = f"It ended {MAX_ATTEMPTS} times without a result; the operator's log says why."
        takeout_fail(takeout=takeout, message=message)
        return None
    return takeout


def takeout_progress(*, takeout: Takeout, written: int, expected: int) -> bool:
    """Note how many bytes are written; false when it is wanted no more."""
    running = Takeout.unscoped.filter(pk=takeout.pk, state=TakeoutState.RUNNING)
    return bool(running.update(written_bytes=written, expected_bytes=expected))


def takeout_finish(*, takeout: Takeout, size: int) -> None:
    """It can be downloaded from now on; those before it go."""
    now = timezone.now()
    running = Takeout.unscoped.filter(pk=takeout.pk, state=TakeoutState.RUNNING)
    running.update(
        state=TakeoutState.READY,
        written_bytes=size,
        expected_bytes=size,
        finished_at=now,
        expires_at=now + KEPT_FOR,
    )
    earlier = Takeout.objects.for_tenant(takeout.tenant).exclude(pk=takeout.pk)
    _delete(list(earlier.exclude(state__in=ACTIVE_TAKEOUTS)))


def takeout_fail(*, takeout: Takeout, message: str) -> None:
    """It cannot be made, for this reason."""
    running = Takeout.unscoped.filter(pk=takeout.pk, state__in=ACTIVE_TAKEOUTS)
    running.update(state=TakeoutState.FAILED, error_message=message, finished_at=timezone.now())


def takeout_path(takeout: Takeout) -> Path:
    """Where its file lies, or would."""
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
