"""Checks of uploads, which may store a corpus or dataset: small ones in the request, others in a worker."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from tenants.accounts.models import ApiKey, Tenant, User
from tenants.accounts.services.tenants import clean_name
from tenants.audit.services import person
from tenants.base.background_jobs import (
    BackgroundKind,
    Reporter,
    background_job_create,
    background_job_is_active,
)
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.hooks import check_details
from tenants.datasets.formats.errors import InvalidRows, postgres_safe
from tenants.datasets.models import CheckKind, CheckState, Corpus, Dataset, Upload, UploadCheck
from tenants.datasets.models.upload import ACTIVE_STATES
from tenants.datasets.services.check_results import (
    CheckResult,
    check_result_load,
    check_result_save,
    check_results_delete_orphans,
    current_check_version,
)
from tenants.datasets.services.corpora import corpus_store, corpus_validate
from tenants.datasets.services.datasets import dataset_store, dataset_validate
from tenants.datasets.services.uploads import upload_complete, upload_stored_file, uploads_consume
from tenants.datasets.storage import upload_store
from tenants.usage.services.quotas import quota_lock

RETRY_AFTER_S: Final = 10
INTERRUPTED_AFTER: Final = timedelta(minutes=10)
"""A small check that is still active after this time was interrupted: its web process ended."""

Files = Mapping[str, Upload]
"""Purpose of each file -> its upload. The purpose is a split of a dataset, or ``file`` for a corpus."""


def check_create(
    *,
    tenant: Tenant,
    kind: str,
    files: Files,
    actor: User | ApiKey,
    store: bool,
    name: str = "",
    options: Mapping[str, Any] | None = None,
) -> UploadCheck:
    """Check uploads; with ``store``, make a corpus or dataset of them. Small checks end before this returns.

    If the files are invalid, the check has the state ``refused`` and says why. Raises ``conflict`` for an
    incomplete upload, ``missing_field`` without a name to store under, ``quota_exceeded`` if too many checks
    are active.
    """
    cleaned = clean_name(name) if store else name.strip()[:100]
    for upload in files.values():
        upload_complete(upload=upload)
    check = UploadCheck(
        tenant=tenant,
        created_by=person(actor),
        api_key=actor if isinstance(actor, ApiKey) else None,
        kind=CheckKind(kind),
        name=cleaned,
        store=store,
        options=dict(options or {}),
        files={purpose: str(upload.pk) for purpose, upload in files.items()},
        size_bytes=sum(upload.size_bytes for upload in files.values()),
    )
    with transaction.atomic():
        quota_lock(tenant=tenant)
        _check_active_count(tenant)
        check.save(force_insert=True)
        if _is_large(check):
            background_job_create(BackgroundKind.UPLOAD_CHECK, str(check.pk), tenant)
    if not _is_large(check):
        _run_inline(check)
        check.refresh_from_db()
    return check


def checks_expire() -> int:
    """End small checks that were interrupted, and delete checks that ended long ago; returns how many."""
    active = UploadCheck.unscoped.filter(state__in=ACTIVE_STATES)
    for check in active.filter(created_at__lt=timezone.now() - INTERRUPTED_AFTER):
        if not any(background_job_is_active(BackgroundKind.UPLOAD_CHECK, str(check.pk))):
            _refuse(check, HmiError(ErrorCode.INTERNAL, "The check was interrupted. Start it again."))
    limit = timezone.now() - timedelta(hours=settings.HMI_UPLOAD_EXPIRY_H)
    deleted, _ = UploadCheck.unscoped.filter(finished_at__lt=limit).delete()
    check_results_delete_orphans()
    return deleted


def check_run(check_id: UUID | str, reporter: Reporter | None = None) -> Mapping[str, Any]:
    """Run a check, unless it is deleted or has ended. A large one runs in a background job.

    If the files are invalid, the check is refused; the background job succeeds. What the reporter raises
    leaves the check as it is.
    """
    active = UploadCheck.unscoped.filter(pk=check_id, state__in=ACTIVE_STATES)
    if (check := active.first()) is not None:
        active.update(state=CheckState.RUNNING)
        try:
            _validate_and_store(check, reporter) if check.store else _validate(check, reporter)
        except HmiError as error:
            if error.code == ErrorCode.LEASE_LOST:
                raise
            _refuse(check, error)
    return {}


def check_crashed(check_id: str, code: str, message: str) -> None:
    """Refuse the files whose background job failed: workers were lost, or there was an internal error."""
    if (check := UploadCheck.unscoped.filter(pk=check_id).first()) is not None:
        _refuse(check, HmiError(ErrorCode(code), message))


def check_error(check: UploadCheck) -> HmiError:
    """The error for which the files of a refused check were refused."""
    error: dict[str, Any] = check.error or {}
    return HmiError(
        ErrorCode(error["code"]), error["message"], param=error.get("param"), details=error.get("details")
    )


def _check_active_count(tenant: Tenant) -> None:
    active = UploadCheck.objects.for_tenant(tenant).filter(state__in=ACTIVE_STATES).count()
    limit = settings.HMI_MAX_CHECKS
    if active >= limit:
        raise HmiError(
            ErrorCode.QUOTA_EXCEEDED,
            f"{active} checks of uploads are waiting or running. Start more when some have ended.",
            details={"quota": "checks", "limit": limit, "used": active},
            retry_after=RETRY_AFTER_S,
        )


def _run_inline(check: UploadCheck) -> None:
    """Run the check in the request. No worker retries it after an unexpected error: the caller gets that."""
    try:
        check_run(check.pk)
    except Exception:
        _refuse(check, HmiError(ErrorCode.INTERNAL, "The check failed. The server log has the details."))
        raise


def _validate(check: UploadCheck, reporter: Reporter | None) -> None:
    with upload_store().workspace() as workspace:
        result = _check_result(check, _uploads(check), workspace, reporter)
        preview = result.preview
        for details in check_details.call_each(check, result):  # advice: its errors are only logged
            preview = preview | details
        with transaction.atomic():
            saved = check_result_save(check=check, result=result) if _is_large(check) else None
            fields: dict[str, Any] = {}
            if saved:
                fields = {
                    "saved_files": saved,
                    "saved_bytes": result.size,
                    "check_version": current_check_version(),
                }
            _finish(check, state=CheckState.PASSED, preview=preview, **fields)


def _validate_and_store(check: UploadCheck, reporter: Reporter | None) -> None:
    uploads = _uploads(check)
    with upload_store().workspace() as workspace:
        result = check_result_load(check=check, workspace=workspace)
        if result is None:
            result = _check_result(check, uploads, workspace, reporter)
        # One upload may be used for several splits.
        upload_bytes = sum({upload.pk: upload.size_bytes for upload in uploads.values()}.values())
        arguments: dict[str, Any] = {
            "tenant": check.tenant,
            "name": check.name,
            "result": result,
            "actor": check.created_by or check.api_key,
            "released_bytes": upload_bytes + result.saved_bytes,
        }
        if check.kind == CheckKind.CORPUS:
            corpus_store(on_stored=_finish_stored(check, uploads, "corpus"), **arguments)
        else:
            dataset_store(on_stored=_finish_stored(check, uploads, "dataset"), **arguments)


def _check_result(
    check: UploadCheck, uploads: Files, workspace: Path, reporter: Reporter | None
) -> CheckResult:
    files = {purpose: (upload.filename, upload_stored_file(upload)) for purpose, upload in uploads.items()}
    if reporter is not None:
        reporter.start_stage(BackgroundKind.UPLOAD_CHECK, check.size_bytes)
        files = {
            purpose: (filename, replace(file, on_read=reporter.report))
            for purpose, (filename, file) in files.items()
        }
    if check.kind == CheckKind.CORPUS:
        filename, stream = files["file"]
        return corpus_validate(workspace=workspace, stream=stream, filename=filename)
    return dataset_validate(workspace=workspace, files=files, **check.options)


def _finish_stored(check: UploadCheck, uploads: Files, field: str) -> Callable[[Corpus | Dataset], None]:
    """A callback for the transaction that stores: it ends the check and deletes the uploads."""

    def finish(stored: Corpus | Dataset) -> None:
        uploads_consume(uploads.values())
        _finish(check, state=CheckState.STORED, **{field: stored})

    return finish


def _uploads(check: UploadCheck) -> dict[str, Upload]:
    found = {str(upload.pk): upload for upload in Upload.objects.for_tenant(check.tenant)}
    if missing := [purpose for purpose, key in check.files.items() if key not in found]:
        raise HmiError(
            ErrorCode.NOT_FOUND,
            f"The upload of {' and '.join(missing)} no longer exists: it expired, was deleted or was already"
            " used. Upload it again.",
            param=missing[0],
        )
    return {purpose: found[key] for purpose, key in check.files.items()}


def _is_large(check: UploadCheck) -> bool:
    return check.size_bytes > settings.HMI_CHECK_INLINE_BYTES


def _refuse(check: UploadCheck, error: HmiError) -> None:
    _finish(
        check,
        state=CheckState.REFUSED,
        error=error.to_json()["error"],
        row_errors=error.rows if isinstance(error, InvalidRows) else [],
    )


def _finish(check: UploadCheck, **changes: Any) -> None:
    safe = {field: postgres_safe(value) for field, value in changes.items()}
    UploadCheck.unscoped.filter(pk=check.pk, state__in=ACTIVE_STATES).update(
        finished_at=timezone.now(), **safe
    )
