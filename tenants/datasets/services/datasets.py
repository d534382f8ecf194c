"""Upload, preview and deletion of datasets."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Unpack

from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from tenants.accounts.models import Tenant
from tenants.accounts.services.tenants import clean_name
from tenants.audit.details import change
from tenants.audit.services import Actor, audit_record, person
from tenants.base.errors import ErrorCode, HmiError, has_dependents
from tenants.datasets.formats.dataset import SPLITS, DatasetOptions, draft_dataset
from tenants.datasets.formats.errors import report_errors_at
from tenants.datasets.formats.report import dataset_preview_rows, dataset_report
from tenants.datasets.formats.rows import required_columns
from tenants.datasets.models import Dataset, DatasetSplit
from tenants.datasets.services.check_results import CheckResult
from tenants.datasets.services.stored_files import files_delete_unused, receive_file, store_files
from tenants.datasets.storage import Readable, StoredFile, digest_file, upload_store
from tenants.usage.services.quotas import quota_check_storage, quota_lock

Files = Mapping[str, tuple[str, Readable | StoredFile]]
"""Split -> (file name, stream)."""


def dataset_upload(
    *,
    tenant: Tenant,
    name: str,
    task: str,
    files: Files,
    actor: Actor = None,
    **options: Unpack[DatasetOptions],
) -> Dataset:
    """Check and store a dataset. Splits that are not given are taken from train.

    ``columns`` maps the canonical columns of the task (``tenants.datasets.formats.rows``) to those of the
    files. ``separator`` separates the labels in a cell. ``allow_leaks`` accepts splits that overlap more than
    the limit, and ``skip_invalid_rows`` leaves out invalid rows; the dataset and its report then say so.
    Raises the typed error of an invalid file, ``conflict`` if the name is taken, ``quota_exceeded``. Then
    neither rows nor files remain.
    """
    cleaned = clean_name(name)
    with upload_store().workspace() as workspace:
        result = dataset_validate(workspace=workspace, task=task, files=files, **options)
        return dataset_store(tenant=tenant, name=cleaned, result=result, actor=actor)


def dataset_validate(
    *, workspace: Path, task: str, files: Files, **options: Unpack[DatasetOptions]
) -> CheckResult:
    """Check files and write their canonical form to the workspace. Parameters as ``dataset_upload``."""
    required_columns(task)  # an unknown task is reported before files are read
    received = {}
    for number, (split, (filename, stream)) in enumerate(files.items()):
        with report_errors_at(split):
            # The key is not the split's name: that comes from the request and is checked only later.
            received[split] = receive_file(stream, workspace, filename=filename, key=str(number))
    sources = {split: source for split, (source, _) in received.items()}
    draft = draft_dataset(files=sources, task=task, workspace=workspace, **options)
    report = dataset_report(draft) | {"files": {split: about for split, (_, about) in received.items()}}
    preview = {"report": report, "rows": dataset_preview_rows(draft)}
    return CheckResult(
        preview, {split: (draft.paths[split], digest_file(draft.paths[split])) for split in SPLITS}
    )


def dataset_store(
    *,
    tenant: Tenant,
    name: str,
    result: CheckResult,
    actor: Actor,
    released_bytes: int = 0,
    on_stored: Callable[[Dataset], object] = lambda _: None,
) -> Dataset:
    """Store a dataset that was checked. Errors as ``dataset_upload``.

    ``on_stored`` is called in the same transaction. It releases ``released_bytes`` of the storage quota.
    """
    with store_files(dict(result.files.values())):
        quota_lock(tenant=tenant)
        quota_check_storage(tenant=tenant, adding_bytes=result.size, releasing_bytes=released_bytes)
        dataset = _dataset_insert(tenant, name, result.report, actor)
        _splits_insert(dataset, result)
        on_stored(dataset)
        return dataset


def dataset_preview(*, task: str, files: Files, **options: Unpack[DatasetOptions]) -> dict[str, Any]:
    """The validation ``report`` and the first ``rows`` of each file. Nothing is stored."""
    with upload_store().workspace() as workspace:
        return dataset_validate(workspace=workspace, task=task, files=files, **options).preview


def dataset_rename(*, dataset: Dataset, name: str, actor: Actor) -> None:
    """Give a dataset another name. Versions keep the name that it had when they were trained. Raises
    ``conflict`` if the name is taken."""
    cleaned, before = clean_name(name), dataset.name
    with transaction.atomic():
        dataset.name = cleaned
        try:
            with transaction.atomic():
                dataset.save(update_fields=["name"])
        except IntegrityError as error:
            dataset.name = before
            raise _name_taken(cleaned) from error
        audit_record(
            verb="dataset.rename",
            subject=cleaned,
            tenant=dataset.tenant,
            actor=actor,
            detail=change(before, cleaned),
        )


def dataset_delete(*, dataset: Dataset, actor: Actor) -> None:
    """Delete a dataset, and its files unless other rows refer to them. ``has_dependents`` if it is in use."""
    with transaction.atomic():
        digests = list(dataset.splits.values_list("sha256", flat=True))
        audit_record(verb="dataset.delete", subject=dataset.name, tenant=dataset.tenant, actor=actor)
        try:
            dataset.delete()
        except ProtectedError as error:
            dependents = sorted(error.protected_objects, key=lambda row: row.pk)
            message = f"The dataset {dataset.name!r} is in use and cannot be deleted"
            raise has_dependents(message, dependents, param="dataset") from error
        transaction.on_commit(lambda: files_delete_unused(digests))


def _dataset_insert(tenant: Tenant, name: str, report: Mapping[str, Any], actor: Actor) -> Dataset:
    dataset = Dataset(
        tenant=tenant,
        name=name,
        task=report["task"],
        labels=report["labels"],
        pairs=report["pairs"],
        leaks_allowed=report["leaks_allowed"],
        report=report,
        created_by=person(actor),
    )
    try:
        with transaction.atomic():
            dataset.save(force_insert=True)
    except IntegrityError as error:
        raise _name_taken(name) from error
    detail = {"task": dataset.task, "leaks_allowed": dataset.leaks_allowed}
    detail |= {key: _without_rows(report[key]) for key in ("corrected", "edited") if key in report}
    audit_record(verb="dataset.upload", subject=name, tenant=tenant, actor=actor, detail=detail)
    return dataset


def _without_rows(made_of: Mapping[str, Any]) -> dict[str, Any]:
    """What the audit log keeps of an edit: counts, but no texts."""
    return {name: value for name, value in made_of.items() if name != "rows"}


def _name_taken(name: str) -> HmiError:
    return HmiError(ErrorCode.CONFLICT, f"There is already a dataset with the name {name!r}.", param="name")


def _splits_insert(dataset: Dataset, result: CheckResult) -> None:
    DatasetSplit.unscoped.bulk_create(
        DatasetSplit(
            dataset=dataset,
            split=split,
            sha256=digest.sha256,
            size_bytes=digest.size,
            rows=result.report["splits"][split]["rows"],
        )
        for split, (_, digest) in result.files.items()
    )
