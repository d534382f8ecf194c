"""An edited dataset: a stored one with changed, new or without some rows, as a new dataset."""

from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, Final

from tenants.accounts.services.tenants import clean_name
from tenants.audit.services import Actor
from tenants.datasets.formats.edits import EditedRow, RowChange, edits_by_split
from tenants.datasets.models import Dataset, Split
from tenants.datasets.selectors.previews import truncated_row
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

MAX_ROWS_KEPT: Final = 100
"""Of the changed rows that the report shows before and after."""
Copy = Callable[[IO[bytes], IO[bytes]], None]
"""Copies the canonical rows of a split with changes, from one file to another."""


def dataset_edit(
    *, dataset: Dataset, changes: Sequence[RowChange], name: str = "", actor: Actor = None
) -> Dataset:
    """Store the dataset with changed rows as a new one; the report of the new one says what changed.

    ``name``: empty for the next free one, such as ``tickets-2``. Raises ``invalid_field`` for a change that
    does not fit, ``corrupt_artifact`` if a stored file was changed, and what ``dataset_upload`` raises: the
    edited rows are checked as if they were uploaded.
    """
    edits = edits_by_split(changes, {row.split: row.rows for row in dataset.splits.all()})

    def note() -> dict[str, Any]:
        done = [row for split in edits.values() for row in split.done]
        return {
            "edited": {
                "dataset": {"id": dataset.pk, "name": dataset.name},
                "changed": sum(row.before is not None and row.after is not None for row in done),
                "removed": sum(row.after is None for row in done),
                "added": sum(row.before is None for row in done),
                "rows": [_kept(row) for row in done[:MAX_ROWS_KEPT]],
            }
        }

    copies = {Split(split): of_split.write for split, of_split in edits.items()}
    return copy_store(dataset=dataset, copies=copies, note=note, name=name, actor=actor)


def copy_store(
    *,
    dataset: Dataset,
    copies: Mapping[Split, Copy],
    note: Callable[[], dict[str, Any]],
    name: str,
    actor: Actor,
) -> Dataset:
    """Store a copy of a dataset whose splits are rewritten by ``copies``. ``note``: what the report gets
    more, asked when they are written. Errors as ``dataset_edit``."""
    cleaned = clean_name(name or corrected_name(dataset))
    stored = {
        Split(row.split): StoredFile(stored_path(row.sha256), FileDigest(row.sha256, row.size_bytes))
        for row in dataset.splits.all()
    }
    with upload_store().workspace() as workspace:
        for split, copy in copies.items():
            rewritten = workspace / f"rewritten-{split}.jsonl"
            verify_file(stored[split], name=f"{dataset.name}, {split},")
            with stored[split].path.open("rb") as source, rewritten.open("xb") as target:
                copy(source, target)
            stored[split] = StoredFile(rewritten, digest_file(rewritten))
        result = dataset_validate(
            workspace=workspace,
            task=dataset.task,
            files={split: (f"{split}.jsonl", file) for split, file in stored.items()},
            allow_leaks=dataset.leaks_allowed,
        )
        result.report.update(note())
        return dataset_store(tenant=dataset.tenant, name=cleaned, result=result, actor=actor)


def _kept(row: EditedRow) -> dict[str, Any]:
    before, after = (None if one is None else truncated_row(dict(one)) for one in (row.before, row.after))
    return {"split": row.split, "row": row.row, "before": before, "after": after}
