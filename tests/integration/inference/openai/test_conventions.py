"""What clients of the OpenAI conventions rely on: states of batches, codes of errors, bounds of metadata."""

from pathlib import Path
from typing import Any

import pytest

from inference.batches.models import Batch, BatchState
from inference.openai.errors import openai_error, openai_status
from tenants.base.errors import ErrorCode, HmiError
from tests.integration.inference.openai.conftest import Caller

PROBLEM = {"code": "out_of_disk", "message": "Full.", "param": None}


def word_of(answer: Any) -> Any:
    """What it says that it is, and where it stands if it says so."""
    told = answer.json()
    return (told["object"], told["status"]) if "status" in told else told["object"]


def prefix(key: str) -> str:
    """What an id begins with."""
    return key.rpartition("-")[0]


def test_batch_statuses_are_those_of_the_conventions(
    client: Caller, batch_line: str, upload_root: Path
) -> None:
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
        (
            HmiError(ErrorCode.NOT_FOUND, "x", param="model"),
            404,
            "invalid_request_error",
            "model_not_found",
        ),
        (HmiError(ErrorCode.INVALID_FIELD, "x"), 400, "invalid_request_error", "invalid_field"),
        (HmiError(ErrorCode.CONFLICT, "x"), 409, "invalid_request_error", "conflict"),
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
    ],
    ids=lambda value: str(value.code) if isinstance(value, HmiError) else None,
)
def test_errors_have_the_statuses_types_and_codes_of_the_conventions(
    error: HmiError, status: int, kind: str, code: str
) -> None:
    told = openai_error(error)["error"]
    assert (openai_status(error), told["type"], told["code"]) == (status, kind, code)


FILE = "file-" + "0" * 32
ASKED: dict[str, dict[str, Any]] = {
    "fine_tuning/jobs": {"model": "bert", "training_file": FILE},
    "batches": {"input_file_id": FILE, "endpoint": "/v1/embeddings", "completion_window": "24h"},
}
MOST = {f"{number:064}": "x" * 512 for number in range(16)}


@pytest.mark.parametrize("path", ASKED)
@pytest.mark.parametrize(
    ("metadata", "param"),
    [
        (MOST, None),
        ({"": "", "a\nb": "a\nb", "größer 😀": ""}, None),
        (MOST | {"one more": ""}, "metadata"),
        ({"x" * 65: ""}, "metadata"),
        ({"a": "x" * 513}, "metadata.a"),
    ],
)
def test_metadata_is_taken_up_to_the_bounds_of_the_conventions(
    client: Caller, path: str, metadata: object, param: str | None
) -> None:
    refused = client.asks(path, **ASKED[path], metadata=metadata)
    told = refused.json()["error"]["param"]
    if param is None:  # then it is the model or the file, which is not there
        assert (refused.status_code, told in ASKED[path]) == (404, True)
    else:
        assert (refused.status_code, told) == (400, param)
