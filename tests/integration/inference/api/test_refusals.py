"""Infer requests that are refused: which error, where, and nothing left in the queue."""

import json
from typing import Any

import pytest
import redis
from rest_framework.test import APIClient

from tenants.accounts.models import User
from tenants.usage.models import Quota
from tests.integration.inference.api.conftest import Ask, Served
from tests.integration.inference.queueing.requests import depth

LONE = "\ud83d"


@pytest.fixture(autouse=True)
def nothing_is_queued(redis_client: redis.Redis) -> Any:
    """A refused request never reaches the queue."""
    yield
    assert depth(redis_client) == 0


def post_raw(served: Served, body: bytes) -> Any:
    client = APIClient(HTTP_AUTHORIZATION=f"Bearer {served.key}")
    return client.post("/api/v1/infer", body, content_type="application/json")


def error_of(answer: Any) -> tuple[int, str, str | None]:
    """Status, code and place; every refusal has all four parts and a request id."""
    error = answer.json()["error"]
    assert error["type"]
    assert error["message"]
    assert answer["X-Request-Id"]
    return answer.status_code, error["code"], error["param"]


BAD_FIELDS: list[tuple[dict[str, object], tuple[int, str, str | None]]] = [
    ({}, (422, "missing_field", "model")),
    ({"model": "mood:99999999999999999999", "inputs": ["x"]}, (422, "invalid_field", "model")),
    ({"model": f"mood{LONE}", "inputs": ["x"]}, (422, "invalid_field", "model")),
    ({"model": "mood", "inputs": [f"a{LONE}"]}, (422, "invalid_encoding", "inputs[0]")),
    ({"model": "mood", "inputs": ["x"], f"a{LONE}": 3}, (422, "invalid_field", None)),
    ({"model": "unheard-of", "inputs": ["x"]}, (404, "not_found", "model")),
    ({"model": "mood@production", "inputs": ["x"]}, (404, "not_found", "model")),
    ({"model": "mood:2", "inputs": ["x"]}, (404, "not_found", "model")),
    ({"model": "unborn", "inputs": ["x"]}, (409, "model_not_ready", "model")),
]


@pytest.mark.parametrize(("body", "expected"), BAD_FIELDS, ids=lambda value: str(value)[:60])
def test_invalid_request_is_refused_at_its_field(
    db: None, served: Served, body: dict[str, object], expected: tuple[int, str, str | None]
) -> None:
    assert error_of(post_raw(served, json.dumps(body).encode())) == expected


def test_model_of_another_tenant_is_not_found(ask: Ask, served: Served) -> None:
    answers = [
        ask(name, key=served.strangers_key) for name in ("acme/mood", "acme/unheard-of", "nobody/mood")
    ]
    assert {error_of(answer) for answer in answers} == {(404, "not_found", "model")}
    assert len({answer.json()["error"]["message"] for answer in answers}) == 1


def test_a_misspelled_model_leads_to_the_callers_own(ask: Ask, served: Served) -> None:
    for name in ("moood", "acme/moood", "nobody/moood"):
        assert ask(name).json()["error"]["message"].endswith("Did you mean acme/mood?")
    assert "mood?" not in ask("acme/moood", key=served.strangers_key).json()["error"]["message"]


@pytest.mark.parametrize("name", ["text", "texts", "input", "prompt", "Inputs"])
def test_another_word_for_the_inputs_leads_to_their_field(db: None, served: Served, name: str) -> None:
    message = post_raw(served, json.dumps({"model": "mood", name: "x"}).encode()).json()["error"]["message"]
    assert message.endswith("Did you mean inputs?")


def test_session_must_name_the_tenant(viewer: User) -> None:
    client = APIClient()
    client.force_login(viewer)
    answer = client.post("/api/v1/infer", {"model": "mood", "inputs": ["x"]}, format="json")
    assert error_of(answer) == (422, "missing_field", "tenant")


@pytest.mark.parametrize("key", ["", "AAAAAAAA.BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB"])
def test_missing_or_unknown_key_is_unauthenticated(db: None, served: Served, key: str) -> None:
    client = APIClient()
    if key:
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {key}")
    answer = client.post("/api/v1/infer", b"not even json", content_type="application/json")
    assert error_of(answer) == (401, "unauthenticated", None)
    assert answer["WWW-Authenticate"] == "Bearer"


def test_spent_quota_says_when_to_retry(ask: Ask, served: Served) -> None:
    Quota.objects.for_tenant(served.world.tenant).update(max_requests_per_day=0)
    answer = ask()
    assert error_of(answer) == (429, "quota_exceeded", None)
    assert 0 < int(answer["Retry-After"]) <= 86_400


TEXT = {"name": "TEXT", "shape": [1], "datatype": "BYTES", "data": ["x"]}
ADDRESSES: dict[str, dict[str, Any]] = {
    "/api/v1/infer": {"model": "acme/unborn", "inputs": ["x"]},
    "/v1/embeddings": {"model": "acme/unborn", "input": ["x"]},
    "/v2/models/acme/unborn/infer": {"inputs": [TEXT]},
}


def post(path: str, user: User | None = None, **headers: str) -> Any:
    """The answer to a request for a model that is not ready."""
    client = APIClient()
    if user:
        client.force_login(user)
    return client.post(path, ADDRESSES[path], format="json", headers=headers)


@pytest.mark.parametrize("path", ADDRESSES)
def test_refusal_has_request_id_and_limits_at_every_address(served: Served, viewer: User, path: str) -> None:
    asked = post(path, viewer, **{"X-Request-Id": "mine"})
    assert (asked.status_code, asked["X-Request-Id"]) == (409, "mine")
    assert {"x-ratelimit-limit-tokens", "x-ratelimit-limit-requests"} <= set(asked.headers)
    misnamed = post(path, viewer, **{"X-Request-Id": "no name!"})
    assert misnamed.status_code == 409
    assert len(misnamed["X-Request-Id"]) == 32
    assert post(path).status_code == 401
    assert post(path, Authorization=f"Bearer {served.manage_key}").status_code == 403
