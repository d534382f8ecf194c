"""The cache of check results: the canonical files that a check wrote, saved until they are stored.

Checking large files takes minutes. So a check that passed saves its canonical files, and storing the same
uploads with the same options reuses them. Complete uploads never change, and saved files are reused only if
they have the checksums in the row. If a file is missing or damaged, the uploads are checked again. A saved
result is deleted with any of its uploads.
"""

import os
import shutil
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import transaction

from tenants.base.disk import sync
from tenants.base.errors import HmiError
from tenants.datasets.models import CheckState, Upload, UploadCheck
from tenants.datasets.storage import CHECK_RESULTS_FOLDER, FileDigest, digest_file, upload_store
from tenants.usage.services.quotas import quota_check_storage, quota_lock

CHECK_VERSION: Final = 2
"""Increase it when a check may give another result, or write other files, for the same uploads."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Files that passed a check. ``preview`` has the ``report`` and the first ``rows``.

    ``files`` are the canonical files with their digests, by split (``corpus`` for a corpus).
    ``saved_bytes`` of them count towards the tenant's storage already.
    """

    preview: dict[str, Any]
    files: Mapping[str, tuple[Path, FileDigest]]
    saved_bytes: int = 0

    @property
    def report(self) -> dict[str, Any]:
        """The validation report."""
        report: dict[str, Any] = self.preview["report"]
        return report

    @property
    def size(self) -> int:
        """The total size of the canonical files in bytes."""
        return sum(digest.size for _, digest in self.files.values())


def check_result_save(*, check: UploadCheck, result: CheckResult) -> dict[str, dict[str, Any]] | None:
    """Save the canonical files of a check; returns their digests, for its row. In the caller's transaction.

    None if the uploads were deleted meanwhile, or the tenant's storage quota has no room for both.
    Deletes earlier results for any of these uploads: at most one is saved for each.
    """
    quota_lock(tenant=check.tenant)
    keys = set(check.files.values())
    uploads = Upload.objects.for_tenant(check.tenant).filter(pk__in=keys).select_for_update()
    if len(uploads) < len(keys):
        return None
    check_result_delete(uploads=keys)
    try:
        quota_check_storage(tenant=check.tenant, adding_bytes=result.size)
    except HmiError:
        return None
    folder = upload_store().check_result_folder(check.pk)
    folder.mkdir(parents=True, exist_ok=True)
    for name, (path, _) in result.files.items():
        sync(path)
        path.replace(folder / name)
    sync(folder)
    return {name: asdict(digest) for name, (_, digest) in result.files.items()}


def current_check_version() -> str:
    """The version of the code and settings on which a check's result depends."""
    return f"{CHECK_VERSION}/{settings.HMI_CORPUS_MIN_WORDS}"


def check_result_load(*, check: UploadCheck, workspace: Path) -> CheckResult | None:
    """The saved result for the same uploads and options, its files linked into the workspace.

    None if there is none, or a file is missing or damaged.
    """
    checks = UploadCheck.objects.for_tenant(check.tenant).filter(kind=check.kind, state=CheckState.PASSED)
    passed = checks.filter(
        files=check.files,
        options=check.options,
        saved_files__isnull=False,
        check_version=current_check_version(),
    ).first()
    if passed is None or passed.saved_files is None:
        return None
    folder, links = upload_store().check_result_folder(passed.pk), workspace / "saved"
    links.mkdir()
    files = {}
    for name, fields in passed.saved_files.items():
        path, digest = links / name, FileDigest(**fields)
        try:
            os.link(folder / name, path)
            if digest_file(path) != digest:
                return None
        except OSError:
            return None
        files[name] = (path, digest)
    return CheckResult(passed.preview, files, passed.saved_bytes)


def check_result_delete(*, uploads: Collection[UUID | str]) -> None:
    """Delete the saved results for any of these uploads. In the caller's transaction."""
    deleted = set(map(str, uploads))
    saved = UploadCheck.unscoped.filter(saved_files__isnull=False).values_list("pk", "files")
    keys = [key for key, files in saved if deleted & set(files.values())]
    if keys:
        UploadCheck.unscoped.filter(pk__in=keys).update(saved_files=None, saved_bytes=0)
        transaction.on_commit(lambda: _delete_folders(keys))


def check_results_delete_orphans() -> None:
    """Delete old folders that belong to no saved result."""
    saved = UploadCheck.unscoped.filter(saved_files__isnull=False).values_list("pk", flat=True)
    upload_store().delete_orphans(CHECK_RESULTS_FOLDER, saved.all)


def _delete_folders(keys: Collection[object]) -> None:
    for key in keys:
        shutil.rmtree(upload_store().check_result_folder(key), ignore_errors=True)
