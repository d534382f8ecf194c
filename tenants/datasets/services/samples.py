"""Sample datasets, for tenants that want to try HMI before they upload their own."""

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Final

from tenants.accounts.models import Tenant
from tenants.audit.services import Actor
from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.models import Dataset, Task
from tenants.datasets.selectors.uploads import datasets_of
from tenants.datasets.services.datasets import dataset_upload

FOLDER: Final = Path(__file__).parent.parent / "samples"


@dataclass(frozen=True, slots=True)
class Sample:
    """A dataset that comes with HMI: a file in ``samples``."""

    name: str
    task: Task
    file: str


SAMPLES: Final = {
    # 88 short messages to a shop: billing, delivery, an account, or a technical problem.
    "support": Sample("Sample: support messages", Task.CLASSIFICATION, "support_messages.csv"),
}


def dataset_add_sample(*, tenant: Tenant, sample: str, actor: Actor) -> Dataset:
    """Store one of the ``SAMPLES`` for a tenant; the dataset that is there if it was added before. Raises
    ``invalid_field`` for an unknown one, and ``quota_exceeded``."""
    chosen = SAMPLES.get(sample)
    if chosen is None:
        known = ", ".join(SAMPLES)
        raise HmiError(
            ErrorCode.INVALID_FIELD, f"There is no such sample. Use one of: {known}.", param="sample"
        )
    found = datasets_of(tenant).filter(name=chosen.name).first()
    if found is not None:
        return found
    files = {"train": (chosen.file, BytesIO((FOLDER / chosen.file).read_bytes()))}
    return dataset_upload(tenant=tenant, name=chosen.name, task=chosen.task, files=files, actor=actor)
