"""A corrected dataset: a stored one with other labels, or without some of its rows, as a new dataset."""

from collections.abc import Iterable
from functools import partial

from tenants.audit.services import Actor
from tenants.datasets.formats.corrections import Correction, corrections_by_row, write_corrected
from tenants.datasets.models import Dataset, Split
from tenants.datasets.services.editing import copy_store


def dataset_correct(
    *, dataset: Dataset, corrections: Iterable[Correction], name: str = "", actor: Actor
) -> Dataset:
    """Store the dataset with corrections of its training rows as a new one; the report says what changed.

    ``name``: empty for the next free one, such as ``tickets-2``. Raises ``invalid_field`` for a correction
    that does not fit, ``corrupt_artifact`` if a stored file was changed, and what ``dataset_upload`` raises.
    """
    [rows] = [split.rows for split in dataset.splits.all() if split.split == Split.TRAIN]
    by_row = corrections_by_row(corrections, task=dataset.task, labels=dataset.labels, rows=rows)
    changes = [change for changes in by_row.values() for change in changes]
    left_out = sum(change.label is None for change in changes)
    about = {
        "dataset": {"id": dataset.pk, "name": dataset.name},
        "relabeled": len(changes) - left_out,
        "left_out": left_out,
    }
    return copy_store(
        dataset=dataset,
        copies={Split.TRAIN: partial(write_corrected, corrections=by_row)},
        note=lambda: {"corrected": about},
        name=name,
        actor=actor,
    )
