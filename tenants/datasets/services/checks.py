"""Checking uploads and storing what they hold: small ones at once, large ones by a worker."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F, Q
from django.utils import timezone

from tenants.accounts.models import ApiKey, Tenant, User
from tenants.accounts.services.tenants import clean_name
from tenants.audit.services import person
from tenants.base.dispatch import UPLOADS_QUEUE, dispatch
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.hooks import check_details
from tenants.datasets.formats.failures import BadRows, storable
from tenants.datasets.models import CheckKind, CheckState, Corpus, Dataset, Upload, UploadCheck
from tenants.datasets.models.upload import ACTIVE_STATES
from tenants.datasets.services.check_results import (
    Checked,
    check_result_keep,
    check_result_load,
    check_results_sweep,
    check_rules,
)
from tenants.datasets.services.corpora import corpus_checked, corpus_store
from tenants.datasets.services.datasets import dataset_checked, dataset_store
from tenants.datasets.services.uploads import upload_complete, upload_kept, uploads_spend
from tenants.datasets.storage import upload_store
from tenants.usage.services.quotas import quota_lock

RUN_CHECK_TASK: Final = "datasets.run_check"
MOST_ATTEMPTS: Final = 3
RETRY_AFTER_S: Final = 10
LOST_AFTER_S: Final = 30.0
"""A check whose message is older gets another; while a worker has it, that one comes to nothing."""

Files = Mapping[str, Upload]
"""What each file is for: a split of a dataset, or ``file``."""


def check_create(
    *,
    tenant: Tenant,
    kind: str,
    files: Files,
    actor: User | ApiKey,
    stores: bool,
    name: str = "",
    options: Mapping[str, Any] | None = None,
) -> UploadCheck:
    """Look at uploads, and store what they hold if asked to; small ones are done with when this returns.

    What is wrong with them stands in the check, whose state is then ``refused``. Raises ``conflict`` for an
    upload that is not complete, ``missing_field`` when there is no name to store under, ``quota_exceeded``
    while too many others have not ended.
    """
    cleaned = clean_name(name) if stores else name.strip()[:100]
    for upload in files.values():
        upload_complete(upload=upload)
    check = UploadCheck(
        tenant=tenant,
        created_by=person(actor),
        api_key=actor if isinstance(actor, ApiKey) else None,
        kind=CheckKind(kind),
        name=cleaned,
        stores=stores,
        options=dict(options or {}),
        files={purpose: str(upload.pk) for purpose, upload in files.items()},
        size_bytes=sum(upload.size_bytes for upload in files.values()),
    )
    with transaction.atomic():
        quota_lock(tenant=tenant)
        _check_number(tenant)
        check.save(force_insert=True)
    if _is_large(check):
        transaction.on_commit(lambda: check_dispatch(check_id=check.pk))
    else:
        _run_at_once(check)
        check.refresh_from_db()
    return check


def check_dispatch(*, check_id: UUID) -> None:
    """Ask a worker to take a check that waits, or whose worker died."""
    UploadCheck.unscoped.filter(pk=check_id).update(dispatched_at=timezone.now())
    dispatch(RUN_CHECK_TASK, str(check_id), queue=UPLOADS_QUEUE)


def checks_dispatch_lost() -> None:
    """Ask again for all that nobody has finished; ``check_run`` leaves alone what somebody works on."""
    before = timezone.now() - timedelta(seconds=LOST_AFTER_S)
    due = Q(dispatched_at__lt=before) | Q(dispatched_at=None, created_at__lt=before)
    for key in UploadCheck.unscoped.filter(due, state__in=ACTIVE_STATES).values_list("pk", flat=True):
        check_dispatch(check_id=key)


def checks_expire() -> int:
    """Forget checks that ended long ago; returns how many."""
    limit = timezone.now() - timedelta(hours=settings.HMI_UPLOAD_LIFE_H)
    forgotten, _ = UploadCheck.unscoped.filter(finished_at__lt=limit).delete()
    check_results_sweep()
    return forgotten


def check_run(*, check_id: UUID) -> None:
    """Do what a check asks, unless it is gone, has ended, or somebody is at it.

    Whoever is at it holds a lock of the database session, which ends with the process. So a check whose
    worker was killed is free for the next one, and no clock has to be trusted.
    """
    with _held(check_id) as ours:
        check = UploadCheck.unscoped.filter(pk=check_id, state__in=ACTIVE_STATES).first() if ours else None
        if check is None:
            return
        UploadCheck.unscoped.filter(pk=check_id).update(state=CheckState.RUNNING, attempts=F("attempts") + 1)
        try:
            _refuse_poison(check)
            _store(check) if check.stores else _look(check)
        except HmiError as error:
            _finish(
                check,
                state=CheckState.REFUSED,
                refusal=error.to_json()["error"],
                faults=error.faults if isinstance(error, BadRows) else [],
            )


def check_refusal(check: UploadCheck) -> HmiError:
    """Why the files of a refused check were refused."""
    told: dict[str, Any] = check.refusal or {}
    return HmiError(
        ErrorCode(told["code"]), told["message"], param=told.get("param"), details=told.get("details")
    )


def _check_number(tenant: Tenant) -> None:
    there = UploadCheck.objects.for_tenant(tenant).filter(state__in=ACTIVE_STATES).count()
    limit = settings.HMI_CHECKS_AT_ONCE
    if there >= limit:
        raise HmiError(
            ErrorCode.QUOTA_EXCEEDED,
            f"{there} checks of uploads wait or run; begin more when some of them have ended.",
            details={"quota": "checks", "limit": limit, "used": there},
            retry_after=RETRY_AFTER_S,
        )


def _run_at_once(check: UploadCheck) -> None:
    """The caller hears of an unexpected error, so no worker is to come upon it again."""
    try:
        check_run(check_id=check.pk)
    except Exception:
        told = HmiError(
            ErrorCode.INTERNAL, "Checking these files failed; the operator's log has the details."
        )
        _finish(check, state=CheckState.REFUSED, refusal=told.to_json()["error"])
        raise


def _look(check: UploadCheck) -> None:
    with upload_store().workspace() as workspace:
        checked = _checked(check, _uploads(check), workspace)
        found = checked.found | _told_by_others(check, checked)
        with transaction.atomic():
            kept = check_result_keep(check=check, checked=checked) if _is_large(check) else None
            about = {"kept": kept, "kept_bytes": checked.size, "kept_by": check_rules()} if kept else {}
            _finish(check, state=CheckState.PASSED, found=found, **about)


def _told_by_others(check: UploadCheck, checked: Checked) -> dict[str, Any]:
    """What the version tree says of files that passed: advice, so its failure (which is logged) is none of
    the check's."""
    told: dict[str, Any] = {}
    for details in check_details.call_each(check, checked):
        told |= details
    return told


def _store(check: UploadCheck) -> None:
    uploads = _uploads(check)
    with upload_store().workspace() as workspace:
        checked = check_result_load(check=check, workspace=workspace) or _checked(check, uploads, workspace)
        shared: dict[str, Any] = {
            "tenant": check.tenant,
            "name": check.name,
            "checked": checked,
            "actor": check.created_by or check.api_key,
            # One upload may be there for several splits.
            "frees_bytes": sum({upload.pk: upload.size_bytes for upload in uploads.values()}.values())
            + checked.kept_bytes,
        }
        if check.kind == CheckKind.CORPUS:
            corpus_store(then=_spending(check, uploads, "corpus"), **shared)
        else:
            dataset_store(then=_spending(check, uploads, "dataset"), **shared)


def _checked(check: UploadCheck, uploads: Files, workspace: Path) -> Checked:
    files = {purpose: (upload.filename, upload_kept(upload)) for purpose, upload in uploads.items()}
    if check.kind == CheckKind.CORPUS:
        filename, stream = files["file"]
        return corpus_checked(workspace=workspace, stream=stream, filename=filename)
    return dataset_checked(workspace=workspace, files=files, **check.options)


def _spending(check: UploadCheck, uploads: Files, field: str) -> Callable[[Corpus | Dataset], None]:
    """What goes into the transaction that stores: the check's end, and that of the uploads."""

    def spend(made: Corpus | Dataset) -> None:
        uploads_spend(uploads.values())
        _finish(check, state=CheckState.STORED, **{field: made})

    return spend


def _uploads(check: UploadCheck) -> dict[str, Upload]:
    found = {str(upload.pk): upload for upload in Upload.objects.for_tenant(check.tenant)}
    if missing := [purpose for purpose, key in check.files.items() if key not in found]:
        raise HmiError(
            ErrorCode.NOT_FOUND,
            f"The upload of {' and '.join(missing)} is gone: it expired, was deleted or is used up. Send it"
            " again.",
            param=missing[0],
        )
    return {purpose: found[key] for purpose, key in check.files.items()}


def _is_large(check: UploadCheck) -> bool:
    return check.size_bytes > settings.HMI_CHECK_INLINE_BYTES


def _refuse_poison(check: UploadCheck) -> None:
    if check.attempts >= MOST_ATTEMPTS:
        raise HmiError(
            ErrorCode.INTERNAL,
            f"Checking these files ended {check.attempts} times without a result; the operator's log has the"
            " details. Try again with a smaller file.",
        )


def _finish(check: UploadCheck, **changes: Any) -> None:
    told = {field: storable(value) for field, value in changes.items()}
    UploadCheck.unscoped.filter(pk=check.pk, state__in=ACTIVE_STATES).update(
        finished_at=timezone.now(), **told
    )


@contextmanager
def _held(check_id: UUID) -> Iterator[bool]:
    """Whether this process, and no other, may work on the check in here."""
    key = check_id.int & (2**63 - 1)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [key])
        ours = bool(cursor.fetchone()[0])
    try:
        yield ours
    finally:
        if ours:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [key])
