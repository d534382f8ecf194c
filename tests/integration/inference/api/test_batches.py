"""Batches, answered by a real inference worker."""

import io
import json
import uuid
from collections.abc import Iterable
from typing import Any

import pytest
from rest_framework.test import APIClient

from inference.batches.models import Batch
from inference.batches.services.lifecycle import batches_expire
from tenants.datasets.models import File, Upload
from tenants.datasets.services.files import file_create
from tenants.datasets.services.uploads import upload_receive
from tenants.usage.models import UsageDay
from tests.background import run_batch
from tests.integration.inference.api.conftest import Served
from tests.processes import InferenceWorker
from versiontree.tree.models import Version
from versiontree.tree.services.hplms import version_set_policy

TEXTS = ["the river stone", "a poor doctor", "the city", "stone by the river in the city"]
Sent = str | dict[str, Any]


@pytest.fixture
def api(db: None, served: Served) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {served.key}")
    return client


def lines_of(sent: Iterable[Sent | bytes]) -> bytes:
    return b"\n".join(one if isinstance(one, bytes) else json.dumps(one).encode() for one in sent)


def send(api: APIClient, content: bytes, model: str = "mood") -> dict[str, Any]:
    file = io.BytesIO(content)
    file.name = "in.jsonl"
    response = api.post("/api/v1/batches", {"model": model, "file": file}, format="multipart")
    assert response.status_code == 201, response.content
    batch: dict[str, Any] = response.json()
    return batch


def openai_batch(served: Served, endpoint: str, content: bytes) -> dict[str, Any]:
    """The body of a request for a batch by the OpenAI conventions; its file is stored."""
    file = file_create(
        tenant=served.world.tenant,
        purpose="batch",
        filename="in.jsonl",
        stream=io.BytesIO(content),
        actor=None,
    )
    return {
        "input_file_id": f"file-{file.pk.hex}",
        "endpoint": endpoint,
        "completion_window": "24h",
    }


def key_of(made: dict[str, Any]) -> uuid.UUID:
    """The batch's own key, of an answer by the OpenAI conventions."""
    return uuid.UUID(made["id"].removeprefix("batch-"))


def seen(api: APIClient, batch: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = api.get(f"/api/v1/batches/{batch['id']}").json()
    return found


def fetched(api: APIClient, batch: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    response: Any = api.get(f"/api/v1/batches/{batch['id']}/{kind}")
    assert response.status_code == 200, response.content
    return [json.loads(line) for line in b"".join(response.streaming_content).splitlines()]


def used(hplm: str) -> tuple[int, int]:
    """Inputs of the model that were answered, and requests that failed."""
    days = UsageDay.unscoped.filter(model_name=hplm)
    return sum(day.inputs for day in days), sum(day.failed for day in days)


def test_each_line_has_one_result_in_order_or_one_error(api: APIClient, worker: InferenceWorker) -> None:
    sent: list[Sent | bytes] = [{"text": TEXTS[at % 4], "id": f"row-{at}"} for at in range(600)]
    sent[3], sent[300], sent[301] = b"{broken", "", {"question": "who?", "context": "she"}
    sent[302:302] = [b"", b'"the city"']
    batch, before = send(api, lines_of(sent)), used("mood")
    run_batch(batch["id"])
    told = seen(api, batch)
    assert (told["state"], told["error"]) == ("completed", None)
    assert (told["total_lines"], told["lines"], told["succeeded"], told["failed"]) == (601, 601, 598, 3)
    errors = fetched(api, batch, "errors")
    assert [(one["line"], one["error"]["code"]) for one in errors] == [
        (4, "invalid_json"),
        (301, "empty_text"),
        (302, "invalid_field"),
    ]
    results = fetched(api, batch, "results")
    assert [one["line"] for one in results] == [at for at in range(1, 603) if at not in (4, 301, 302, 303)]
    assert results[0]["id"] == "row-0"
    assert next(one for one in results if "id" not in one)["line"] == 304
    direct = api.post("/api/v1/infer", {"model": "mood", "inputs": TEXTS}, format="json").json()["results"]
    for at in (0, 1, 2, 5):
        found, expected = results[at]["result"], direct[int(results[at]["id"][4:]) % 4]
        assert (found["label"], found["number_format"]) == (expected["label"], "float32")
        assert found["scores"] == pytest.approx(expected["scores"], abs=1e-3)
    assert used("mood") == (before[0] + 598 + 4, before[1])
    assert not Batch.unscoped.get(pk=batch["id"]).folder.exists()


@pytest.mark.parametrize("policy", ["table", "full"])
def test_lines_are_answered_by_the_policy_of_the_version(
    api: APIClient, worker: InferenceWorker, policy: str
) -> None:
    version_set_policy(version=Version.unscoped.get(hplm__name="mood"), policy=policy, actor=None)
    batch = send(api, lines_of(TEXTS))
    run_batch(batch["id"])
    assert {one["result"]["level"] for one in fetched(api, batch, "results")} == {policy}


def test_interrupted_batch_continues_without_losing_or_repeating_a_line(
    api: APIClient, worker: InferenceWorker
) -> None:
    sent = [{"text": TEXTS[at % 4], "id": str(at)} if at % 100 else "" for at in range(700)]
    batch, other = send(api, lines_of(sent)), send(api, lines_of(TEXTS))
    row = Batch.unscoped.get(pk=batch["id"])
    turns = 0
    while seen(api, batch)["state"] != "completed":
        run_batch(row.pk, time_slice_s=0)
        turns += 1
        assert turns < 100, seen(api, batch)
        for torn in row.folder.glob("*.jsonl"):  # what a killed process leaves beyond what it noted
            torn.write_bytes(torn.read_bytes() + b'{"line": 1, "resu')
    assert turns > 1
    told = seen(api, batch)
    assert (told["lines"], told["succeeded"], told["failed"]) == (700, 693, 7)
    lines = [fetched(api, batch, kind) for kind in ("results", "errors")]
    assert sorted(one["line"] for part in lines for one in part) == list(range(1, 701))
    assert seen(api, other)["state"] == "waiting"


def test_results_until_a_cancellation_or_failure_can_be_fetched(
    api: APIClient, worker: InferenceWorker, served: Served
) -> None:
    cancelled, failed, waiting = (send(api, lines_of(["the city"] * 300)) for _ in range(3))
    for batch in (cancelled, failed):
        run_batch(batch["id"], time_slice_s=0)
    assert api.post(f"/api/v1/batches/{cancelled['id']}/cancel").json()["state"] == "cancelled"
    Batch.unscoped.filter(pk=failed["id"]).update(version_number=9)
    for batch in (cancelled, failed):
        assert api.get(f"/api/v1/batches/{batch['id']}/results").status_code == 404
        run_batch(batch["id"])
        assert len(fetched(api, batch, "results")) == seen(api, batch)["succeeded"] == 256
    assert seen(api, failed)["error"]["code"] == "not_found"
    again = api.post(f"/api/v1/batches/{cancelled['id']}/cancel")
    assert (again.status_code, again.json()["error"]["code"]) == (409, "invalid_transition")
    Batch.unscoped.filter(pk=waiting["id"]).update(expires_at="2000-01-01T00:00Z")
    batches_expire()
    assert [one["state"] for one in api.get("/api/v1/batches").json()["results"]] == [
        "expired",
        "failed",
        "cancelled",
    ]
    assert api.get("/api/v1/batches?state=expired").json()["results"][0]["id"] == waiting["id"]


def test_batch_of_too_many_lines_fails(api: APIClient) -> None:
    batch = send(api, b'"x"\n' * 1_000_001)
    run_batch(batch["id"])
    assert (seen(api, batch)["state"], seen(api, batch)["error"]["code"]) == ("failed", "too_many_inputs")


def test_refused_batch_leaves_no_row_and_no_file(api: APIClient, served: Served) -> None:
    file = io.BytesIO(b'"the city"')
    file.name = "in.jsonl"
    for body, status, code in (
        ({"model": "nobody", "file": file}, 404, "not_found"),
        ({"model": "unborn", "file": file}, 409, "model_not_ready"),
        ({"model": "mood"}, 422, "missing_field"),
        ({"model": "mood", "upload": str(uuid.uuid4())}, 404, "not_found"),
        ({"model": "mood", "file": io.BytesIO(b"\n \n")}, 422, "empty_file"),
    ):
        file.seek(0)
        refused = api.post("/api/v1/batches", body, format="multipart")
        assert (refused.status_code, refused.json()["error"]["code"]) == (status, code)
    assert not Batch.unscoped.exists()
    assert not File.unscoped.exists()
    batch = send(api, b'"the city"')
    stranger = APIClient(HTTP_AUTHORIZATION=f"Bearer {served.strangers_key}")
    assert stranger.get(f"/api/v1/batches/{batch['id']}").status_code == 404
    assert stranger.post(f"/api/v1/batches/{batch['id']}/cancel").status_code == 404


def test_batch_consumes_its_upload(api: APIClient, served: Served) -> None:
    owner = served.world.owner
    content = lines_of(TEXTS)
    upload = upload_receive(
        tenant=served.world.tenant,
        filename="a.jsonl",
        size=len(content),
        stream=io.BytesIO(content),
        actor=owner,
    )
    client = APIClient()
    client.force_login(owner)
    body = {"model": "mood@default", "upload": str(upload.pk)}
    made = client.post("/api/v1/batches?tenant=acme", body, format="json")
    assert (made.status_code, made.json()["filename"]) == (201, "a.jsonl")
    assert not Upload.unscoped.exists()


def test_batch_of_requests_follows_the_openai_conventions(
    api: APIClient, worker: InferenceWorker, served: Served
) -> None:
    url = "/api/v1/infer"
    requests: list[Sent | bytes] = [
        {
            "custom_id": f"row-{at}",
            "method": "POST",
            "url": url,
            "body": {"model": "acme/mood", "inputs": [TEXTS[at], "x"][: 1 + at % 2]},
        }
        for at in range(4)
    ]
    other = {"custom_id": "other", "method": "POST", "url": url, "body": {"model": "places", "inputs": ["x"]}}
    sent = lines_of([*requests, other, b"[]"])
    asked = openai_batch(served, url, sent)
    made = api.post("/v1/batches", asked | {"metadata": {"of": "May"}}, format="json").json()
    assert (made["status"], made["output_file_id"], made["metadata"]) == ("validating", None, {"of": "May"})
    run_batch(key_of(made))
    told = api.get(f"/v1/batches/{made['id']}").json()
    assert (told["status"], told["model"]) == ("completed", "acme/mood")
    assert told["request_counts"] == {"total": 6, "completed": 4, "failed": 2}
    keeper = APIClient(HTTP_AUTHORIZATION=f"Bearer {served.manage_key}")
    content: Any = keeper.get(f"/v1/files/{told['output_file_id']}/content")
    answers = [json.loads(line) for line in b"".join(content.streaming_content).splitlines()]
    assert [answer["custom_id"] for answer in answers] == [f"row-{at}" for at in range(4)]
    assert [len(answer["response"]["body"]["results"]) for answer in answers] == [1, 2, 1, 2]
    assert {answer["response"]["number_format"] for answer in answers} == {"float32"}
    assert answers[0]["response"]["body"]["model"] == "acme/mood:1"
    errors: Any = keeper.get(f"/v1/files/{told['error_file_id']}/content")
    refused = [json.loads(line) for line in b"".join(errors.streaming_content).splitlines()]
    assert [(one["custom_id"], one["response"]["status_code"]) for one in refused] == [
        ("other", 422),
        (None, 422),
    ]
    assert [one["id"] for one in api.get("/v1/batches").json()["data"]] == [made["id"]]
    for wrong in (
        {"endpoint": "/v1/responses"},
        {"input_file_id": "file-1"},
        {"completion_window": "1h"},
    ):
        assert api.post("/v1/batches", asked | wrong, format="json").status_code in (400, 404)


@pytest.mark.parametrize("ids", [["a", "b", "a"], ["x" * 90, "b", "x" * 90]], ids=["short ids", "long ids"])
def test_failed_batch_names_the_wrong_line(api: APIClient, served: Served, ids: list[str]) -> None:
    url, code, param, line = "/v1/embeddings", "invalid_field", "custom_id", 4
    requests = [
        {"custom_id": each, "method": "POST", "url": url, "body": {"model": "mood", "input": "x"}}
        for each in ids
    ]
    asked = openai_batch(served, url, b"\n" + lines_of(requests))
    made = api.post("/v1/batches", asked, format="json").json()
    run_batch(key_of(made))
    failed = api.get(f"/v1/batches/{made['id']}").json()
    (error,) = failed["errors"]["data"]
    assert failed["status"] == "failed"
    assert (error["code"], error["param"], error["line"]) == (code, param, line)
    own = seen(api, {"id": str(key_of(made))})
    assert (own["succeeded"], own["error"]["param"], own["error"]["line"]) == (0, param, line)
    assert own["error"]["code"] == code


def test_batch_of_embeddings_has_the_vectors_of_single_requests(
    api: APIClient, worker: InferenceWorker, served: Served
) -> None:
    body: dict[str, Any] = {"model": "places", "input": TEXTS[:2]}
    url = "/v1/embeddings"
    options: list[dict[str, Any]] = [{}, {"dimensions": 4}, {"dimensions": 10**6}, {"prompt_name": "?"}]
    sent = [
        {"custom_id": str(at), "method": "POST", "url": url, "body": body | more}
        for at, more in enumerate(options)
    ]
    made = api.post("/v1/batches", openai_batch(served, url, lines_of(sent)), format="json").json()
    run_batch(key_of(made))
    whole, short = (
        line["response"]["body"]["data"] for line in fetched(api, {"id": str(key_of(made))}, "results")
    )
    direct = api.post(url, body, format="json").json()["data"]
    for one, other in zip(whole, direct, strict=True):
        assert one["embedding"] == pytest.approx(other["embedding"], abs=1e-3)
    assert [len(one["embedding"]) for one in short] == [4, 4]
    refused, unknown = fetched(api, {"id": str(key_of(made))}, "errors")
    assert unknown["response"]["body"]["error"]["param"] == "prompt_name"
    alone = api.post(url, body | {"dimensions": 10**6}, format="json")
    assert refused["response"]["status_code"] == alone.status_code == 400
    assert refused["response"]["body"] == alone.json()
