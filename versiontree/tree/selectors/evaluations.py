"""Reads of what versions answered when they were evaluated, and of the rows that they were asked."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db.models import Case, QuerySet, When

from tenants.accounts.models import Tenant
from tenants.datasets.models import Dataset, DatasetSplit, Split
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
    """The dataset that rows are of, and the file that they stand in."""

    dataset: Dataset
    file: Path


def evaluations_of(tenant: Tenant, version: Version) -> QuerySet[Evaluation]:
    """What a version of the tenant's answered, the newest first."""
    return Evaluation.objects.for_tenant(tenant).filter(version=version).select_related("artifact", "version")


def evaluation_of(tenant: Tenant, version: Version, *, test: str = "") -> Evaluation | None:
    """Its answers to the file with this sha256; without one, to the test rows of its own dataset, or else to
    those it was asked last."""
    found = list(evaluations_of(tenant, version))
    wanted = test or own_test_digest(version)
    exact = next((one for one in found if one.test == wanted), None)
    return exact or (found[0] if found and not test else None)


def evaluations_shared(tenant: Tenant, one: Version, other: Version) -> tuple[Evaluation, Evaluation] | None:
    """What both versions answered to the same rows: those of the other's own dataset if they were, or else of
    the one's, or whatever both were asked last."""
    of_one = {each.test: each for each in evaluations_of(tenant, one)}
    of_other = {each.test: each for each in evaluations_of(tenant, other)}
    both = [test for test in of_other if test in of_one]
    best = next(
        (test for test in (own_test_digest(other), own_test_digest(one), *both) if test in both), None
    )
    return None if best is None else (of_one[best], of_other[best])


def versions_evaluable(version: Version, *, limit: int) -> list[Version]:
    """The versions of the same model that can be evaluated, the newest first."""
    ready = Version.unscoped.filter(hplm=version.hplm_id, state=VersionState.READY)
    return list(ready.order_by("-number")[:limit])


def own_test_digest(version: Version) -> str:
    """The sha256 of the test rows that the version was made with; empty for an imported one."""
    splits = as_mapping(as_mapping(version.config.get("dataset")).get("splits"))
    return str(splits.get(Split.TEST, ""))


def answers_of(evaluation: Evaluation) -> EvaluationAnswers:
    """The answers themselves. Raises ``ArtifactDamaged``."""
    store = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT))
    return answers_read(store.path(evaluation.artifact.kind, evaluation.artifact.digest))


def row_source(tenant: Tenant, test: str) -> RowSource | None:
    """Where the rows of the file with this sha256 stand; nothing once their dataset is deleted."""
    splits = DatasetSplit.objects.for_tenant(tenant).filter(sha256=test).select_related("dataset")
    split, file = splits.order_by("-pk").first(), upload_store().path(test)
    return RowSource(split.dataset, file) if split is not None and file.is_file() else None


def rows_read(source: RowSource | None, answered: Iterable[RowAnswer]) -> Iterator[Row | None]:
    """The canonical row of each of these; None where it is gone."""
    if source is None:
        yield from (None for _ in answered)
        return
    with source.file.open("rb") as lines:
        for one in answered:
            lines.seek(one.at)
            yield json.loads(lines.readline())


def datasets_like(tenant: Tenant, version: Version, *, limit: int) -> list[Dataset]:
    """The tenant's newest datasets that a version of a model could have been made from, its own first."""
    assert version.hplm is not None
    task = version.hplm.task
    alike = Dataset.objects.for_tenant(tenant).filter(task=task, pairs=takes_pairs(task, version.config))
    own = Case(When(pk=version.dataset_id or 0, then=0), default=1)
    return list(alike.order_by(own, "-created_at", "-pk")[:limit])
