"""What a check of files found and made of them, and how it is kept until it is stored.

Large files take minutes to check. So a check that passed leaves the canonical files it wrote beside its row,
and storing the same uploads in the same way takes those instead of reading the uploads again. Uploads never
change once they are complete, and what was kept is taken only if it has the checksums that the row says: a
file that is gone or damaged costs another check and nothing else. What is kept goes with any of its uploads.
"""

import os
import shutil
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import transaction

from tenants.base.disk import sync
from tenants.base.errors import HmiError
from tenants.datasets.models import CheckState, Upload, UploadCheck
from tenants.datasets.storage import Measured, measure, upload_store
from tenants.usage.services.quotas import quota_check_storage, quota_lock

ORPHANED_AFTER_S: Final = 3600.0
RULES: Final = 1
"""By which files are checked and written: one more whenever a verdict, or what is written, may differ."""


@dataclass(frozen=True, slots=True)
class Checked:
    """``found`` has the ``report`` and the first ``rows``; ``files`` are the canonical ones with their
    checksums, by their split, that of a corpus by ``corpus``. ``kept_bytes`` of them count as the tenant's
    storage already."""

    found: dict[str, Any]
    files: Mapping[str, tuple[Path, Measured]]
    kept_bytes: int = 0

    @property
    def report(self) -> dict[str, Any]:
        """What was found in all."""
        report: dict[str, Any] = self.found["report"]
        return report

    @property
    def size(self) -> int:
        """Bytes of the canonical files."""
        return sum(measured.size for _, measured in self.files.values())


def check_result_keep(*, check: UploadCheck, checked: Checked) -> dict[str, dict[str, Any]] | None:
    """Move the canonical files to the place of this check; what its row is to say of them, in the same
    transaction. None where the uploads have gone meanwhile, or the tenant's storage has no room for both.

    What earlier checks of any of these uploads kept goes: an upload is kept in one form at most.
    """
    quota_lock(tenant=check.tenant)
    keys = set(check.files.values())
    uploads = Upload.objects.for_tenant(check.tenant).filter(pk__in=keys).select_for_update()
    if len(uploads) < len(keys):
        return None
    check_result_delete(uploads=keys)
    try:
        quota_check_storage(tenant=check.tenant, adding_bytes=checked.size)
    except HmiError:
        return None
    folder = upload_store().checked(check.pk)
    folder.mkdir(parents=True, exist_ok=True)
    for name, (path, _) in checked.files.items():
        sync(path)
        path.replace(folder / name)
    sync(folder)
    return {
        name: {"sha256": measured.sha256, "size": measured.size}
        for name, (_, measured) in checked.files.items()
    }


def check_rules() -> str:
    """By which rules a check of now is made."""
    return f"{RULES}/{settings.HMI_CORPUS_MIN_WORDS}"


def check_result_load(*, check: UploadCheck, workspace: Path) -> Checked | None:
    """What an earlier check of the same uploads kept, its files linked into the workspace; None where there
    is nothing, or it is not what it was."""
    mine = UploadCheck.objects.for_tenant(check.tenant).filter(kind=check.kind, state=CheckState.PASSED)
    passed = mine.filter(
        files=check.files, options=check.options, kept__isnull=False, kept_by=check_rules()
    ).first()
    if passed is None or passed.kept is None:
        return None
    folder, linked = upload_store().checked(passed.pk), workspace / "kept"
    linked.mkdir()
    files = {}
    for name, about in passed.kept.items():
        path, measured = linked / name, Measured(**about)
        try:
            os.link(folder / name, path)
            if measure(path) != measured:
                return None
        except OSError:
            return None
        files[name] = (path, measured)
    return Checked(passed.found, files, passed.kept_bytes)


def check_result_delete(*, uploads: Collection[UUID | str]) -> None:
    """Keep no longer what was made of any of these uploads; in the caller's transaction."""
    gone = set(map(str, uploads))
    keeping = UploadCheck.unscoped.filter(kept__isnull=False).values_list("pk", "files")
    keys = [key for key, files in keeping if gone & set(files.values())]
    if keys:
        UploadCheck.unscoped.filter(pk__in=keys).update(kept=None, kept_bytes=0)
        transaction.on_commit(lambda: _remove(keys))


def check_results_sweep() -> None:
    """Remove what no row speaks of."""
    limit = time.time() - ORPHANED_AFTER_S
    keeping = {
        str(key) for key in UploadCheck.unscoped.filter(kept__isnull=False).values_list("pk", flat=True)
    }
    for folder in upload_store().checked("").glob("*"):
        with suppress(FileNotFoundError):  # forgotten meanwhile
            if folder.name not in keeping and folder.stat().st_mtime < limit:
                _remove([folder.name])


def _remove(keys: Collection[object]) -> None:
    for key in keys:
        shutil.rmtree(upload_store().checked(key), ignore_errors=True)
