"""A corrected dataset: a stored one with other labels, or without some of its rows, as a new dataset."""

from collections.abc import Iterable

from tenants.accounts.services.tenants import clean_name
from tenants.audit.services import Actor
from tenants.datasets.formats.corrections import Correction, corrections_by_row, write_corrected
from tenants.datasets.models import Dataset, Split
from tenants.datasets.selectors.uploads import corrected_name
from tenants.datasets.services.datasets import dataset_store, dataset_validate
from tenants.datasets.storage import (
    FileDigest,
    StoredFile,
    digest_file,
    stored_path,
    upload_store,
    verify_file,
)


def dataset_correct(
    *, dataset: Dataset, corrections: Iterable[Correction], name: str = "", actor: Actor
) -> Dataset:
    """Store the dataset with corrections of its training rows as a new one; the report says what changed.

    ``name``: empty for the next free one, such as ``tickets-2``. Raises ``invalid_field`` for a correction
    that does not fit, ``corrupt_artifact`` if a stored file was changed, and what ``dataset_upload`` raises.
    """
    cleaned = clean_name(name or corrected_name(dataset))
    splits = {row.split: row for row in dataset.splits.all()}
    by_row = corrections_by_row(
        corrections, task=dataset.task, labels=dataset.labels, rows=splits[Split.TRAIN].rows
    )
    stored = {
        split: StoredFile(stored_path(row.sha256), FileDigest(row.sha256, row.size_bytes))
        for split, row in splits.items()
    }
    with upload_store().workspace() as workspace:
        corrected = workspace / "corrected.jsonl"
        verify_file(stored[Split.TRAIN], name=f"{dataset.name}, train,")
        with stored[Split.TRAIN].path.open("rb") as source, corrected.open("xb") as target:
            write_corrected(source, target, by_row)
        stored[Split.TRAIN] = StoredFile(corrected, digest_file(corrected))
        result = dataset_validate(
            workspace=workspace,
            task=dataset.task,
            files={split: (f"{split}.jsonl", file) for split, file in stored.items()},
            allow_leaks=dataset.leaks_allowed,
        )
        changes = [change for changes in by_row.values() for change in changes]
        left_out = sum(change.label is None for change in changes)
        result.report["corrected"] = {
            "dataset": {"id": dataset.pk, "name": dataset.name},
            "relabeled": len(changes) - left_out,
            "left_out": left_out,
        }
        return dataset_store(tenant=dataset.tenant, name=cleaned, result=result, actor=actor)
