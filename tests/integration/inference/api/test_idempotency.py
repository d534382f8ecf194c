"""The header Idempotency-Key: the same call twice has one answer, and is computed once."""

from typing import Any

import pytest
from pytest_django import Settings
from redis import Redis
from rest_framework.test import APIClient

from inference.queueing import keys
from tenants.usage.models import UsageDay
from tests.integration.inference.api.conftest import Served
from tests.integration.inference.api.waiting import Waiting, wait_for_queued
from tests.integration.inference.queueing.requests import depth
from tests.processes import InferenceWorker

pytestmark = pytest.mark.django_db
BODY = {"model": "mood", "inputs": ["a good stone"]}


@pytest.fixture
def redis(redis_url: str) -> Any:
    """The queue, without answers kept from other tests."""
    with Redis.from_url(redis_url) as client:
        for key in client.scan_iter(keys.KEPT + "*"):
            client.delete(key)
        yield client


def post(served: Served, key: str, body: Any = None, **more: Any) -> Any:
    client = APIClient(HTTP_AUTHORIZATION=f"Bearer {served.key}")
    return client.post("/api/v1/infer", body or BODY, format="json", headers={"Idempotency-Key": key}, **more)


def asked(served: Served) -> int:
    """Requests that were computed for the tenant."""
    return sum(day.requests for day in UsageDay.objects.for_tenant(served.world.tenant))


def code_of(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def test_the_same_call_has_the_same_answer_and_is_computed_once(
    served: Served, worker: InferenceWorker, redis: Redis
) -> None:
    before = asked(served)
    first = post(served, "k1")
    again = post(served, "k1", dict(reversed(BODY.items())))
    assert first.status_code == again.status_code == 200
    assert again.json() == first.json()
    assert again.json()["id"] == first["X-Request-Id"] != again["X-Request-Id"]
    assert asked(served) == before + 1
    assert post(served, "k2").json()["id"] != first.json()["id"]


def test_a_key_belongs_to_one_body(served: Served, worker: InferenceWorker, redis: Redis) -> None:
    post(served, "k1")
    other = post(served, "k1", {**BODY, "inputs": ["a bad stone"]})
    assert code_of(other) == (422, "invalid_field")
    assert other.json()["error"]["param"] == "Idempotency-Key"
    assert code_of(post(served, "k1", {**BODY, "quality": "exact"})) == (422, "invalid_field")


def test_a_call_in_flight_is_not_begun_twice_and_is_no_longer_than_it_may_take(
    served: Served, busy: InferenceWorker, redis: Redis, settings: Settings
) -> None:
    settings.HMI_USAGE_INTERVAL_S = 60.0  # a refusal counted in this transaction would hold up the other's
    first = Waiting(served, **{"Idempotency-Key": "k1"})
    wait_for_queued(redis, 1)
    # Who would answer may die: then the key is free when the call's own time is over.
    assert 0 < redis.pttl(keys.kept(served.world.tenant.slug, "k1")) <= 1000 * settings.HMI_INFER_DEADLINE_S
    body = {"model": "mood", "inputs": ["x"]}
    again = post(served, "k1", body)
    assert code_of(again) == (409, "in_flight")
    assert int(again["Retry-After"]) > 0
    assert code_of(post(served, "k1")) == (422, "invalid_field")
    assert depth(redis) == 1
    busy.resume()
    answer = first.answer()
    assert answer.status_code == 200
    assert post(served, "k1", body).json() == answer.json()


def test_call_that_was_never_computed_is_not_kept(
    served: Served, busy: InferenceWorker, empty_queue: Redis
) -> None:
    assert code_of(post(served, "k1")) == (503, "worker_unavailable")
    busy.resume()
    busy.wait_until_ready()
    assert post(served, "k1").status_code == 200


def test_a_request_that_is_refused_takes_no_key(
    served: Served, worker: InferenceWorker, redis: Redis
) -> None:
    assert code_of(post(served, "k1", {**BODY, "model": "unheard-of"})) == (404, "not_found")
    assert post(served, "k1").status_code == 200


@pytest.mark.parametrize("key", ["", "k" * 129, "é"])
def test_a_key_that_cannot_be_one_is_refused(served: Served, key: str) -> None:
    answer = post(served, key)
    assert code_of(answer) == (422, "invalid_field")
    assert answer.json()["error"]["param"] == "Idempotency-Key"


def test_an_answer_is_told_also_when_it_cannot_be_kept(
    served: Served, worker: InferenceWorker, redis: Redis
) -> None:
    redis.set(keys.KEPT, "not a sorted set")
    assert post(served, "k1").status_code == 200
    redis.delete(keys.KEPT)
