"""The words that clients of the OpenAI conventions act upon: what things are called, where they stand, what
went wrong. They are written out here, since a client compares them letter by letter."""

from pathlib import Path
from typing import Any

import pytest

from inference.batches.models import Batch, BatchState
from inference.openai.errors import openai_error, openai_status
from tenants.base.errors import ErrorCode, HmiError
from tests.integration.inference.openai.conftest import Caller
from tests.integration.inference.openai.tuning import asked, begin, now, version_of
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.tree_factory import TenantFixture
from versiontree.jobs.models import Job
from versiontree.jobs.services.lifecycle import job_event, job_fail
from versiontree.tree.models import FineTuning, Version

PROBLEM = {"code": "out_of_disk", "message": "Full.", "param": None}


def word_of(answer: Any) -> Any:
    """What it says that it is, and where it stands if it says so."""
    told = answer.json()
    return (told["object"], told["status"]) if "status" in told else told["object"]


def prefix(key: str) -> str:
    """What an id begins with."""
    return key.rpartition("-")[0]


def test_files(client: Caller) -> None:
    file = client.sends("{}", purpose="batch")
    key = file.json()["id"]
    assert (word_of(file), prefix(key), file.json()["purpose"]) == (("file", "processed"), "file", "batch")
    assert word_of(client.get("/v1/files")) == "list"
    assert client.delete(f"/v1/files/{key}").json() == {"id": key, "object": "file", "deleted": True}


def test_models(client: Caller, root: Version, acme: TenantFixture) -> None:
    tree_factory.ready_hplm(root, "mood", acme)
    listed = client.get("/v1/models")
    assert (word_of(listed), {model["object"] for model in listed.json()["data"]}) == ("list", {"model"})
    assert word_of(client.get("/v1/models/acme/mood")) == "model"
    kinds = {model["id"]: model["hmi"]["kind"] for model in listed.json()["data"]}
    assert kinds == {"acme/mood": "model", "bert": "root"}


def test_fine_tunings_that_come_to_a_good_end(client: Caller, root: Version) -> None:
    job = asked(client, suffix="mood", hyperparameters={"n_epochs": "auto"})
    words = [now(client, job)["status"]]
    assert (job["object"], prefix(job["id"]), job["integrations"]) == ("fine_tuning.job", "ftjob", [])
    assert job["method"]["type"] == "supervised"
    assert set(job["method"]["supervised"]["hyperparameters"].values()) == {"auto"}
    begin(job)
    words.append(now(client, job)["status"])
    tuning, evaluating = tree_factory.jobs_in_order(version_of(job))
    tree_factory.claim(tuning)
    job_event(job_id=tuning.pk, kind="metrics", data={"step": 1, "total": 1, "loss": 0.5})
    words.append(now(client, job)["status"])
    Job.unscoped.filter(pk=tuning.pk).update(state="queued", worker="", lease_expires_at=None)
    tree_factory.do_job(tuning)
    tree_factory.do_job(evaluating)
    words.append(now(client, job)["status"])
    assert words == ["validating_files", "queued", "running", "succeeded"]

    address = f"/v1/fine_tuning/jobs/{job['id']}"
    events = client.get(f"{address}/events", {"limit": 100})
    told = {(one["object"], prefix(one["id"]), one["level"], one["type"]) for one in events.json()["data"]}
    about = ("fine_tuning.job.event", "ftevent", "info")
    assert (word_of(events), told) == ("list", {(*about, "message"), (*about, "metrics")})
    checkpoints = client.get(f"{address}/checkpoints")
    (one,) = checkpoints.json()["data"]
    assert (word_of(checkpoints), one["object"], prefix(one["id"]), one["fine_tuning_job_id"]) == (
        "list",
        "fine_tuning.job.checkpoint",
        "ftckpt",
        job["id"],
    )
    results = client.get(f"/v1/files/{now(client, job)['result_files'][0]}")
    assert (word_of(results), results.json()["purpose"]) == (("file", "processed"), "fine-tune-results")


def test_fine_tunings_that_do_not(client: Caller, root: Version) -> None:
    begun = asked(client, suffix="one")
    begin(begun)
    tuning, _ = tree_factory.jobs_in_order(version_of(begun))
    worker = tree_factory.claim(tuning)
    job_fail(job_id=tuning.pk, worker=worker, code=ErrorCode.OUT_OF_DISK, message="Full.")
    failed = now(client, begun)
    assert (failed["status"], failed["error"]) == ("failed", PROBLEM)
    levels = [one["level"] for one in client.get(f"/v1/fine_tuning/jobs/{begun['id']}/events").json()["data"]]
    assert "error" in levels

    early, late = asked(client, suffix="two"), asked(client, suffix="three")
    begin(late)
    for job in (early, late):
        stopped = client.asks(f"fine_tuning/jobs/{job['id']}/cancel")
        assert word_of(stopped) == ("fine_tuning.job", "cancelled")
    events = client.get(f"/v1/fine_tuning/jobs/{late['id']}/events").json()["data"]
    assert "warn" in {one["level"] for one in events}
    FineTuning.unscoped.filter(pk=early["id"].removeprefix("ftjob-")).update(state="failed", error=PROBLEM)
    assert now(client, early)["status"] == "failed"


def test_batches(client: Caller, batch_line: str, upload_root: Path) -> None:
    file = client.sends(batch_line, purpose="batch").json()["id"]
    answered = {"input_file_id": file, "endpoint": "/v1/embeddings", "completion_window": "24h"}
    made = client.asks("batches", **answered)
    told, rows = made.json(), Batch.unscoped
    assert (word_of(made), prefix(told["id"])) == (("batch", "validating"), "batch")
    assert {name: told[name] for name in answered} == answered
    assert word_of(client.get("/v1/batches")) == "list"

    def now_at() -> tuple[str, set[str]]:
        told = client.get(f"/v1/batches/{made.json()['id']}").json()
        ended = {"completed", "failed", "expired", "cancelled", "finalizing", "cancelling"}
        return told["status"], {word for word in ended if told[f"{word}_at"]}

    rows.update(total_lines=1, state=BatchState.RUNNING)
    assert now_at() == ("in_progress", set())
    for state, after, before in [
        (BatchState.COMPLETED, {"completed", "finalizing"}, "finalizing"),
        (BatchState.FAILED, {"failed"}, "finalizing"),
        (BatchState.EXPIRED, {"expired"}, "finalizing"),
        (BatchState.CANCELLED, {"cancelled", "cancelling"}, "cancelling"),
    ]:
        rows.update(state=state, finished_at="2026-01-01T00:00:00Z", results_bytes=0, error_code="")
        assert now_at() == (str(state), after)
        rows.update(results_bytes=1)
        rows.get().folder.mkdir(parents=True, exist_ok=True)
        assert now_at()[0] == before
    rows.update(error_code="out_of_disk", error_message="Full.")
    told = client.get(f"/v1/batches/{made.json()['id']}").json()["errors"]
    assert told == {"object": "list", "data": [{**PROBLEM, "line": None}]}


@pytest.mark.parametrize(
    ("error", "status", "kind", "code"),
    [
        (HmiError(ErrorCode.UNAUTHENTICATED, "x"), 401, "invalid_request_error", "invalid_api_key"),
        (HmiError(ErrorCode.FORBIDDEN, "x"), 403, "invalid_request_error", "forbidden"),
        (HmiError(ErrorCode.NOT_FOUND, "x"), 404, "invalid_request_error", "not_found"),
        (
            HmiError(ErrorCode.NOT_FOUND, "x", param="model"),
            404,
            "invalid_request_error",
            "model_not_found",
        ),
        (HmiError(ErrorCode.INVALID_FIELD, "x"), 400, "invalid_request_error", "invalid_field"),
        (HmiError(ErrorCode.CHECKSUM_MISMATCH, "x"), 400, "invalid_request_error", "checksum_mismatch"),
        (HmiError(ErrorCode.CONFLICT, "x"), 409, "invalid_request_error", "conflict"),
        (HmiError(ErrorCode.FILE_TOO_LARGE, "x"), 413, "invalid_request_error", "file_too_large"),
        (HmiError(ErrorCode.QUOTA_EXCEEDED, "x"), 429, "insufficient_quota", "insufficient_quota"),
        (HmiError(ErrorCode.RATE_LIMITED, "x"), 429, "requests", "rate_limit_exceeded"),
        (
            HmiError(ErrorCode.RATE_LIMITED, "x", details={"limit": "tokens"}),
            429,
            "tokens",
            "rate_limit_exceeded",
        ),
        (HmiError(ErrorCode.INTERNAL, "x"), 500, "server_error", "internal"),
        (HmiError(ErrorCode.WORKER_UNAVAILABLE, "x"), 503, "server_error", "worker_unavailable"),
        (HmiError(ErrorCode.DEADLINE_EXCEEDED, "x"), 504, "server_error", "deadline_exceeded"),
    ],
    ids=lambda value: str(value.code) if isinstance(value, HmiError) else None,
)
def test_errors(error: HmiError, status: int, kind: str, code: str) -> None:
    told = openai_error(error)["error"]
    assert (openai_status(error), told["type"], told["code"]) == (status, kind, code)
