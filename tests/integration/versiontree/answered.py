"""Answers of versions, kept as their evaluate jobs would have."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.conf import settings

from tenants.datasets.models import Dataset
from tenants.datasets.storage import upload_store
from versiontree.artifact_store import ArtifactStore
from versiontree.tree.models import Artifact, Version
from versiontree.tree.services.evaluations import evaluation_record
from versiontree.tree.services.versions import dataset_check
from workers.training.evaluation_answers import write_answers
from workers.training.tasks.base import EvaluatedRow

Judge = Callable[[dict[str, Any], int], EvaluatedRow | None]
"""What is answered to a row of that number, from 0; None for a row that is not answered."""


def answers_keep(
    version: Version, judge: Judge, *, dataset: Dataset | None = None, most: int = 20_000
) -> None:
    """The version answered the test rows of a dataset, its own by default, like this."""
    assert version.tenant is not None
    about = dataset_check(dataset=dataset, tenant=version.tenant) if dataset else version.config["dataset"]
    file = upload_store().path(about["splits"]["test"])
    lines = file.read_text(encoding="utf-8").splitlines()
    judged = [judge(json.loads(line), number) for number, line in enumerate(lines)]
    store = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT))
    with store.workspace("answers") as folder:
        write_answers(folder / "answers", task=about["task"], file=file, evaluated=judged, max_rows=most)
        made = store.ingest("answers", folder / "answers")
    row, _ = Artifact.objects.get_or_create(
        kind=made.kind, digest=made.digest, defaults={"size": made.size, "files": dict(made.files)}
    )
    evaluation_record(version=version, artifact=row, dataset=about)


def label_judge(wrong: Callable[[int], str]) -> Judge:
    """Answers of a classification: the label that `wrong` says, or the right one where it says nothing."""

    def judge(row: dict[str, Any], number: int) -> EvaluatedRow:
        answer = wrong(number) or row["label"]
        right = answer == row["label"]
        return EvaluatedRow(row["label"], answer, right, round(0.5 + (number % 40) / 100, 4))

    return judge
