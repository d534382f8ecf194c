"""Stored answers of evaluated versions, and the dataset rows that they belong to."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db.models import QuerySet

from tenants.accounts.models import Tenant
from tenants.datasets.models import Dataset, DatasetSplit, Split
from tenants.datasets.selectors.uploads import datasets_for_task
from tenants.datasets.storage import upload_store
from versiontree.artifact_store import ArtifactStore
from versiontree.tree.evaluation_answers import EvaluationAnswers, RowAnswer, answers_read
from versiontree.tree.models import Evaluation, Version
from versiontree.tree.models.version import VersionState
from versiontree.tree.selectors.versions import as_mapping
from versiontree.tree.serving_manifest import takes_pairs

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RowSource:
    """A dataset and the stored file that holds its rows."""

    dataset: Dataset
    file: Path


def evaluations_of(tenant: Tenant, version: Version) -> QuerySet[Evaluation]:
    """The evaluations of a tenant's version, newest first."""
    return Evaluation.objects.for_tenant(tenant).filter(version=version).select_related("artifact", "version")


def evaluation_of(tenant: Tenant, version: Version, *, test_sha256: str = "") -> Evaluation | None:
    """The version's answers to the test file with this checksum.

    Without a checksum: its answers to the test split of its own dataset, else the latest ones.
    """
    found = list(evaluations_of(tenant, version))
    wanted = test_sha256 or own_test_sha256(version)
    exact = next((one for one in found if one.test_sha256 == wanted), None)
    return exact or (found[0] if found and not test_sha256 else None)


def evaluation_on(tenant: Tenant, test_sha256: str) -> Evaluation | None:
    """The latest answers of any version to the test file with this checksum, None without any."""
    found = Evaluation.objects.for_tenant(tenant).filter(test_sha256=test_sha256)
    return found.select_related("artifact", "version").first()


def evaluations_shared(tenant: Tenant, one: Version, other: Version) -> tuple[Evaluation, Evaluation] | None:
    """The answers of both versions to the same test file, None if they have none in common.

    It prefers the test split of the dataset of ``other``, then that of ``one``, then the latest.
    """
    of_one = {each.test_sha256: each for each in evaluations_of(tenant, one)}
    of_other = {each.test_sha256: each for each in evaluations_of(tenant, other)}
    preferred = (own_test_sha256(other), own_test_sha256(one), *of_other)
    best = next((test for test in preferred if test in of_one and test in of_other), None)
    return None if best is None else (of_one[best], of_other[best])


def versions_evaluable(version: Version, *, limit: int) -> list[Version]:
    """The ready versions of the same model, newest first."""
    ready = Version.unscoped.filter(hplm=version.hplm_id, state=VersionState.READY)
    return list(ready.order_by("-number")[:limit])


def own_test_sha256(version: Version) -> str:
    """The sha256 of the test split of the version's dataset. Empty for an imported version."""
    splits = as_mapping(as_mapping(version.config.get("dataset")).get("splits"))
    return str(splits.get(Split.TEST, ""))


def answers_of(evaluation: Evaluation) -> EvaluationAnswers:
    """Read the stored answers. Raises ``ArtifactDamaged``."""
    store = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT))
    return answers_read(store.path(evaluation.artifact.kind, evaluation.artifact.digest))


def row_source(tenant: Tenant, test_sha256: str) -> RowSource | None:
    """The stored test file with this checksum, None if its dataset was deleted."""
    splits = DatasetSplit.objects.for_tenant(tenant).filter(sha256=test_sha256).select_related("dataset")
    split, file = splits.order_by("-pk").first(), upload_store().path(test_sha256)
    return RowSource(split.dataset, file) if split is not None and file.is_file() else None


def rows_read(source: RowSource | None, answered: Iterable[RowAnswer]) -> Iterator[Row | None]:
    """The dataset row of each answer, None if the dataset was deleted."""
    if source is None:
        yield from (None for _ in answered)
        return
    with source.file.open("rb") as lines:
        for one in answered:
            lines.seek(one.at)
            yield json.loads(lines.readline())


def datasets_like(tenant: Tenant, version: Version, *, limit: int) -> list[Dataset]:
    """The tenant's datasets of the same task as a model's version: its own first, then the newest."""
    assert version.hplm is not None
    task = version.hplm.task
    pairs = takes_pairs(task, version.config)
    return datasets_for_task(tenant, task, pairs=pairs, first=version.dataset_id, limit=limit)
