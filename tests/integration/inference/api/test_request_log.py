"""Infer requests in the tenant's request log: of a real inference worker, over every API."""

import io
import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings
from rest_framework.test import APIClient

from frontend.views import playground
from inference.api.infer import InferRun
from tenants.accounts.models import Tenant, User
from tenants.base.errors import INTERNAL_MESSAGE
from tenants.base.ttl_cache import process_cache
from tenants.usage.models import LoggedRequest
from tenants.usage.services.usage import usage_flush
from tests.background import run_batch
from tests.integration.inference.api.conftest import Ask, Served
from tests.processes import InferenceWorker

TEXT = "a good stone"
OIP = {"inputs": [{"name": "TEXT", "shape": [1], "datatype": "BYTES", "data": [TEXT]}]}


@pytest.fixture(autouse=True)
def empty_log(db: None, served: Served) -> None:
    """Other tests' web servers have committed theirs."""
    LoggedRequest.unscoped.all().delete()


@pytest.fixture
def api(db: None, served: Served) -> APIClient:
    """A program with acme's key."""
    return APIClient(HTTP_AUTHORIZATION=f"Bearer {served.key}")


def entry(tenant: str = "acme") -> LoggedRequest:
    """The tenant's only one."""
    return LoggedRequest.unscoped.get(tenant__slug=tenant)


def ended(one: LoggedRequest) -> tuple[str, int, str, str, int | None]:
    return one.api, one.status, one.error_code, one.model_name, one.version


@pytest.mark.usefixtures("worker")
def test_an_answered_request_has_its_figures_and_no_text(ask: Ask, served: Served) -> None:
    answer = ask("graded@default", [TEXT, "the city", "x"], quality="balanced")
    one, told = entry(), answer.json()
    assert ended(one) == ("infer", 200, "", "graded", 1)
    assert one.request_id == answer.headers["x-request-id"] == told["id"]
    assert (one.inputs, one.tokens, one.generated_tokens) == (3, told["usage"]["tokens"], 0)
    assert one.key_prefix == served.key[:8]
    assert one.level == "cascade"
    assert sum(one.details["levels"].values()) == 3
    assert one.details["timings_ms"] == told["timings_ms"]
    assert one.latency_ms is not None
    assert one.texts is None
    assert TEXT not in json.dumps(one.details)


@pytest.mark.usefixtures("worker")
def test_other_protocols_are_logged_as_such(api: APIClient) -> None:
    for address, body in (
        ("/v2/models/mood/versions/1/infer", OIP),
        ("/v1/embeddings", {"model": "acme/mood", "input": [TEXT, TEXT]}),
    ):
        assert api.post(address, body, format="json").status_code == 200
    embeddings, oip = LoggedRequest.unscoped.all()
    assert ended(oip) == ("oip", 200, "", "mood", 1)
    assert ended(embeddings) == ("embeddings", 200, "", "mood", 1)
    assert (oip.inputs, embeddings.inputs, embeddings.level) == (1, 2, "full")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"txt": "secret words"}, "Unknown field 'txt'; the fields are model, inputs,"),
        ({"inputs": [{"text": "secret words", "pair": "x"}]}, """a string, {"text": …, "text_pair": …} or"""),
        ({"secret words": 1}, "Unknown field …; the fields are model, inputs,"),
    ],
)
def test_a_logged_message_has_the_names_of_fields_and_no_words_of_the_caller(
    ask: Ask, fields: dict[str, Any], message: str
) -> None:
    assert ask("mood", **fields).status_code == 422
    assert message in entry().message
    assert "secret" not in entry().message


@pytest.mark.parametrize(
    ("body", "code", "model"),
    [
        ({"model": "moot", "inputs": [TEXT]}, "not_found", "moot"),
        ({"model": "globex/mood:3", "inputs": [TEXT]}, "not_found", "globex/mood"),
        ({"model": "unborn", "inputs": [TEXT]}, "model_not_ready", "unborn"),
        ({"model": "mood"}, "missing_field", "mood"),
        ({"model": "a\0b", "inputs": [TEXT]}, "invalid_field", ""),
        ({"model": "x" * 300, "inputs": [TEXT]}, "invalid_field", "x" * 100),
    ],
)
def test_a_refused_request_has_the_model_that_it_named(
    api: APIClient, body: dict[str, Any], code: str, model: str
) -> None:
    answer = api.post("/api/v1/infer", body, format="json")
    assert ended(entry()) == ("infer", answer.status_code, code, model, None)
    assert entry().request_id == answer.headers["x-request-id"]
    assert not LoggedRequest.unscoped.exclude(tenant__slug="acme").exists()


def test_a_body_that_cannot_be_read_is_logged_without_a_model(api: APIClient) -> None:
    answer = api.post("/api/v1/infer", b'{"model": "mood"', content_type="application/json")
    assert ended(entry()) == ("infer", answer.status_code, "invalid_json", "", None)


def test_a_request_beyond_the_limit_is_logged(api: APIClient, served: Served, settings: Settings) -> None:
    settings.HMI_RATE_REQUESTS = 1
    body = {"model": "moot", "inputs": [TEXT]}
    statuses = [api.post("/api/v1/infer", body, format="json").status_code for _ in range(2)]
    assert statuses == [404, 429]
    limited = LoggedRequest.unscoped.get(status=429)
    assert ended(limited) == ("infer", 429, "rate_limited", "moot", None)


def test_unauthenticated_requests_are_in_no_log(db: None, served: Served) -> None:
    body = {"model": "acme/mood", "inputs": [TEXT]}
    stranger = APIClient()
    stranger.force_login(served.stranger)
    statuses = [
        client.post("/api/v1/infer", body, format="json").status_code
        for client in (APIClient(), APIClient(HTTP_AUTHORIZATION="Bearer nonsense"), stranger)
    ]
    assert statuses == [401, 401, 404]
    assert not LoggedRequest.unscoped.exists()


def test_request_with_a_key_is_logged_for_its_tenant(ask: Ask, served: Served) -> None:
    assert ask("acme/mood", key=served.strangers_key).status_code == 404
    assert ended(entry("globex")) == ("infer", 404, "not_found", "acme/mood", None)
    assert not LoggedRequest.unscoped.filter(tenant__slug="acme").exists()


def test_a_request_that_runs_out_of_time_has_its_version(ask: Ask, busy: InferenceWorker) -> None:
    assert ask("mood", timeout_s=0.2).status_code == 504
    one = entry()
    assert ended(one) == ("infer", 504, "deadline_exceeded", "mood", 1)
    assert (one.inputs, one.level, one.details) == (1, "", {})
    assert one.latency_ms is not None


def test_unexpected_error_is_logged(served: Served, db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inference.api.views.prepare_request", None)
    client = Client(raise_request_exception=False, headers={"Authorization": f"Bearer {served.key}"})
    body = {"model": "mood", "inputs": [TEXT]}
    assert client.post("/api/v1/infer", body, content_type="application/json").status_code == 500
    assert ended(entry()) == ("infer", 500, "internal", "mood", None)


@pytest.mark.usefixtures("worker")
def test_repeated_idempotent_request_is_logged_again(api: APIClient) -> None:
    body = {"model": "mood", "inputs": [TEXT]}
    for _ in range(2):
        answer = api.post("/api/v1/infer", body, format="json", headers={"Idempotency-Key": "once"})
        assert answer.status_code == 200
    again, first = LoggedRequest.unscoped.all()
    assert ended(again) == ended(first) == ("infer", 200, "", "mood", 1)
    assert (again.tokens, again.inputs) == (first.tokens, 1)


@pytest.fixture
def keeps_texts(db: None, served: Served) -> None:
    Tenant.objects.filter(pk=served.world.tenant.pk).update(keeps_request_texts=True)
    process_cache().clear()


@pytest.mark.usefixtures("worker", "keeps_texts")
def test_texts_are_logged_if_the_tenant_keeps_them(ask: Ask, api: APIClient) -> None:
    ask("mood", [TEXT, "y " * 400])
    assert entry().texts == [TEXT, ("y " * 400)[:500]]


@pytest.mark.usefixtures("worker")
def test_the_playground_logs_its_requests(viewer: User, client: Client) -> None:
    client.force_login(viewer)
    sent = client.post("/t/acme/playground/send/", {"model": "mood", "text": TEXT})
    assert sent.status_code == 200
    one = entry()
    assert ended(one) == ("playground", 200, "", "mood", 1)
    assert (one.key_prefix, one.inputs) == ("", 1)


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize(
    ("owner", "method"), [(playground, "prepare_request"), (InferRun, "wait"), (InferRun, "conclude")]
)
def test_an_unexpected_error_of_one_model_of_the_playground_leaves_the_others_their_answers(
    viewer: User, client: Client, monkeypatch: pytest.MonkeyPatch, owner: Any, method: str
) -> None:
    calls, original = itertools.count(1), getattr(owner, method)

    def fail_second(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == 2:
            raise ValueError("unforeseen")
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, method, fail_second)
    client.force_login(viewer)
    models = ["mood", "graded"]
    page = client.post("/t/acme/playground/send/", {"model": models, "text": TEXT}).content.decode()
    assert page.count(INTERNAL_MESSAGE) == 1
    rows = LoggedRequest.unscoped.order_by("request_id")
    assert [(one.status, one.error_code) for one in rows] == [(200, ""), (500, "internal")]


@pytest.mark.usefixtures("worker")
def test_failed_lines_of_a_batch_are_logged_and_no_others(api: APIClient) -> None:
    file = io.BytesIO(b"\n".join([json.dumps(TEXT).encode(), b'""', json.dumps(TEXT).encode(), b"{"]))
    file.name = "in.jsonl"
    batch = api.post("/api/v1/batches", {"model": "mood", "file": file}, format="multipart").json()
    run_batch(batch["id"])
    rows = LoggedRequest.unscoped.order_by("pk")
    assert [ended(one)[:1] + ended(one)[2:] for one in rows] == [
        ("batch", "empty_text", "mood", 1),
        ("batch", "invalid_json", "mood", 1),
    ]
    assert [one.request_id.rpartition("-")[2] for one in rows] == ["2", "4"]


@pytest.mark.usefixtures("worker")
def test_requests_wait_in_memory_for_the_next_write(
    ask: Ask, settings: Settings, django_assert_max_num_queries: Callable[..., Any]
) -> None:
    ask("mood")
    LoggedRequest.unscoped.all().delete()
    settings.HMI_USAGE_INTERVAL_S = settings.HMI_KEY_CACHE_S = settings.HMI_MODEL_CACHE_S = 60.0
    process_cache().clear()
    try:
        ask("mood")
        with django_assert_max_num_queries(0):
            ask("mood")
        assert not LoggedRequest.unscoped.exists()
        assert usage_flush()
        assert LoggedRequest.unscoped.count() == 2
    finally:
        usage_flush()
        process_cache().clear()
