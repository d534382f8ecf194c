"""Rows of a dataset whose label looks wrong: the quick version that was trained on it is sure of another."""

from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from tenants.accounts.models import Tenant
from tenants.datasets.models import Dataset, Split
from tenants.datasets.selectors.rows import dataset_rows_at
from versiontree.tree.models import Hplm, Version
from versiontree.tree.models.version import VersionKind
from versiontree.tree.selectors.coverage import versions_built_from
from versiontree.tree.selectors.versions import hplms_of


@dataclass(frozen=True, slots=True)
class Suspect:
    """A row of train, counted from 0, and the label that the quick version suggests for it with this
    confidence, 0 to 1. For tagging, the tag of ``token``. ``example`` is the stored row."""

    row: int
    token: int | None
    label: str
    suggested: str
    confidence: float
    example: dict[str, Any]


def suspects_version(tenant: Tenant, dataset: Dataset) -> Version | None:
    """The newest quick version that was trained on the dataset and looked for wrong labels."""
    built = versions_built_from(tenant, dataset).filter(kind=VersionKind.HPLM, metrics__has_key="quick")
    return built.first()


def hplms_trained_on(tenant: Tenant, dataset_id: int) -> QuerySet[Hplm]:
    """The tenant's models that have a version trained on the dataset, by name."""
    return hplms_of(tenant).filter(versions__dataset_id=dataset_id).distinct()


def suspects_of(version: Version, dataset: Dataset) -> list[Suspect]:
    """The rows whose label looks wrong to the version, the surest first. Raises ``corrupt_artifact``."""
    found = _reported(version)
    rows = dataset_rows_at(dataset, split=Split.TRAIN, numbers={one["row"] for one in found})
    return [
        Suspect(
            row=one["row"],
            token=one.get("token"),
            label=one["label"],
            suggested=one["suggested"],
            confidence=one["confidence"],
            example=rows[one["row"]],
        )
        for one in found
        if one["row"] in rows
    ]


def suspects_count(version: Version) -> int:
    """The number of rows, or tokens, whose label looks wrong to the version."""
    return len(_reported(version))


def _reported(version: Version) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = version.metrics.get("quick", {}).get("suspects", [])
    return found
