"""Asking for fine-tuning jobs, and doing the work of the one who begins them."""

from typing import Any

from tests.integration.inference.openai.conftest import Caller
from tests.unit.tenants.files import jsonl, texts
from versiontree.tree.models import FineTuning, Version
from versiontree.tree.services.fine_tunings import fine_tuning_start


def begin(job: dict[str, Any]) -> None:
    """What the worker does."""
    fine_tuning_start(fine_tuning_id=FineTuning.unscoped.get(pk=job["id"].removeprefix("ftjob-")).pk)


def asked(client: Caller, rows: str | None = None, **body: Any) -> dict[str, Any]:
    """A fine-tuning job of these rows."""
    file = client.sends(rows or jsonl(texts(60))).json()["id"]
    made = client.asks("fine_tuning/jobs", **{"model": "bert", "training_file": file, **body})
    assert made.status_code == 200, made.json()
    job: dict[str, Any] = made.json()
    return job


def now(client: Caller, job: dict[str, Any]) -> dict[str, Any]:
    """The job as it stands."""
    shown: dict[str, Any] = client.get(f"/v1/fine_tuning/jobs/{job['id']}").json()
    return shown


def version_of(job: dict[str, Any]) -> Version:
    """What the job makes."""
    version = FineTuning.unscoped.get(pk=job["id"].removeprefix("ftjob-")).version
    assert version is not None
    return version
