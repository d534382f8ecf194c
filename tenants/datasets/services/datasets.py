"""Uploading, previewing and deleting datasets."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from tenants.accounts.models import Tenant
from tenants.accounts.services.tenants import clean_name
from tenants.audit.services import Actor, audit_record, person
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.hooks import has_dependents
from tenants.datasets.formats.check import DEFAULT_SEPARATOR
from tenants.datasets.formats.dataset import SPLITS, DatasetDraft, draft_dataset
from tenants.datasets.formats.failures import brought_by
from tenants.datasets.formats.report import dataset_preview_rows, dataset_report
from tenants.datasets.formats.rows import needed_columns
from tenants.datasets.models import Dataset, DatasetSplit
from tenants.datasets.services.check_results import Checked
from tenants.datasets.services.intake import filed, files_release, receive_upload
from tenants.datasets.storage import Kept, Readable, measure, upload_store
from tenants.usage.services.quotas import quota_check_storage, quota_lock

Files = Mapping[str, tuple[str, Readable | Kept]]
"""Split -> (file name, stream)."""


def dataset_upload(
    *,
    tenant: Tenant,
    name: str,
    task: str,
    files: Files,
    columns: Mapping[str, str] | None = None,
    separator: str = DEFAULT_SEPARATOR,
    allow_leaks: bool = False,
    actor: Actor = None,
    frees_bytes: int = 0,
    then: Callable[[Dataset], object] = lambda _: None,
) -> Dataset:
    """Check and store a dataset; splits that are not given are taken from train.

    In the transaction that stores it ``then`` is called, which frees so many bytes of the quota.

    ``columns`` maps the canonical columns of the task (``tenants.datasets.formats.rows``) to those of the
    files, ``separator`` parts the labels of a cell, ``allow_leaks`` takes splits that share more texts than
    they should, which the dataset and its report then say. Raises a typed error that says what is wrong and
    where, ``conflict`` when the name is taken, ``quota_exceeded``; then neither rows nor files remain.
    """
    cleaned = clean_name(name)
    with upload_store().workspace() as workspace:
        checked = dataset_checked(
            workspace=workspace,
            task=task,
            files=files,
            columns=columns,
            separator=separator,
            allow_leaks=allow_leaks,
        )
        return dataset_store(
            tenant=tenant, name=cleaned, checked=checked, actor=actor, frees_bytes=frees_bytes, then=then
        )


def dataset_checked(
    *,
    workspace: Path,
    task: str,
    files: Files,
    columns: Mapping[str, str] | None = None,
    separator: str = DEFAULT_SEPARATOR,
    allow_leaks: bool = False,
) -> Checked:
    """Check files as ``dataset_upload`` takes them, and write canonical ones to the workspace. Raises a typed
    error that says what is wrong and where."""
    draft, received = _draft(workspace, files, task, columns, separator, allow_leaks)
    found = {"report": dataset_report(draft) | {"files": received}, "rows": dataset_preview_rows(draft)}
    return Checked(found, {split: (draft.paths[split], measure(draft.paths[split])) for split in SPLITS})


def dataset_store(
    *,
    tenant: Tenant,
    name: str,
    checked: Checked,
    actor: Actor,
    frees_bytes: int,
    then: Callable[[Dataset], object],
) -> Dataset:
    """The half of ``dataset_upload`` that is left when the files were checked."""
    with filed(dict(checked.files.values())):
        quota_lock(tenant=tenant)
        quota_check_storage(tenant=tenant, adding_bytes=checked.size, beside_uploads=-frees_bytes)
        dataset = _dataset_insert(tenant, name, checked.report, actor)
        _splits_insert(dataset, checked)
        then(dataset)
        return dataset


def dataset_preview(
    *,
    task: str,
    files: Files,
    columns: Mapping[str, str] | None = None,
    separator: str = DEFAULT_SEPARATOR,
    allow_leaks: bool = False,
) -> dict[str, Any]:
    """What an upload would say: ``report`` and the first ``rows`` of each file. Nothing is stored."""
    with upload_store().workspace() as workspace:
        return dataset_checked(
            workspace=workspace,
            task=task,
            files=files,
            columns=columns,
            separator=separator,
            allow_leaks=allow_leaks,
        ).found


def dataset_delete(*, dataset: Dataset, actor: Actor) -> None:
    """Delete a dataset, and its files unless other uploads share them. In use: ``has_dependents``."""
    with transaction.atomic():
        digests = list(dataset.splits.values_list("sha256", flat=True))
        audit_record(verb="dataset.delete", subject=dataset.name, tenant=dataset.tenant, actor=actor)
        try:
            dataset.delete()
        except ProtectedError as error:
            standing = sorted(error.protected_objects, key=lambda row: row.pk)
            message = f"The dataset {dataset.name!r} is in use and stays"
            raise has_dependents(message, standing, param="dataset") from error
        transaction.on_commit(lambda: files_release(digests))


def _draft(
    workspace: Path,
    files: Files,
    task: str,
    columns: Mapping[str, str] | None,
    separator: str,
    allow_leaks: bool,
) -> tuple[DatasetDraft, dict[str, Any]]:
    needed_columns(task)
    taken = {}
    for number, (split, (filename, stream)) in enumerate(files.items()):
        with brought_by(split):
            # The splits' names are checked later: they come from the request, and are no names for files.
            taken[split] = receive_upload(stream, workspace, filename=filename, key=str(number))
    sources = {split: source for split, (source, _) in taken.items()}
    draft = draft_dataset(
        files=sources,
        task=task,
        columns=columns,
        workspace=workspace,
        separator=separator,
        allow_leaks=allow_leaks,
    )
    return draft, {split: received for split, (_, received) in taken.items()}


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
        raise HmiError(
            ErrorCode.CONFLICT, f"There is already a dataset with the name {name!r}.", param="name"
        ) from error
    detail = {"task": dataset.task, "leaks_allowed": dataset.leaks_allowed}
    audit_record(verb="dataset.upload", subject=name, tenant=tenant, actor=actor, detail=detail)
    return dataset


def _splits_insert(dataset: Dataset, checked: Checked) -> None:
    DatasetSplit.unscoped.bulk_create(
        DatasetSplit(
            dataset=dataset,
            split=split,
            sha256=measured.sha256,
            size_bytes=measured.size,
            rows=checked.report["splits"][split]["rows"],
        )
        for split, (_, measured) in checked.files.items()
    )
