"""Asking for fine-tuning jobs, and doing the work of the one who begins them."""

from typing import Any
from uuid import UUID

from tests.background import run_background_of
from tests.integration.inference.openai.conftest import Caller
from tests.unit.tenants.files import jsonl, texts
from versiontree.tree.models import FineTuning, Version


def begin(job: dict[str, Any]) -> None:
    """Run the background job that validates the files and creates the version."""
    run_background_of(UUID(job["id"].removeprefix("ftjob-")))


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
