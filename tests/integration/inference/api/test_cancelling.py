"""`DELETE /api/v1/infer/<request id>`: who may take back what, and what the waiting call is told."""

from typing import Any

import pytest
from pytest_django import Settings
from redis import Redis
from rest_framework.test import APIClient

from inference.queueing import keys
from tests.integration.inference.api.conftest import Ask, Served, root_of
from tests.integration.inference.api.waiting import Waiting, wait_for_queued
from tests.integration.inference.queueing.requests import depth
from tests.processes import InferenceWorker


def take_back(key: str, request_id: str) -> Any:
    return APIClient(HTTP_AUTHORIZATION=f"Bearer {key}").delete(f"/api/v1/infer/{request_id}")


@pytest.mark.parametrize("taken", [False, True])
def test_a_cancelled_call_is_answered_at_once(
    db: None, served: Served, queue: Redis, busy: InferenceWorker, taken: bool
) -> None:
    """Also one that a worker, paused here, has taken already."""
    call = Waiting(served, **{"X-Request-Id": "job-7_a"})
    wait_for_queued(queue, 1)
    if taken:
        queue.xreadgroup(keys.GROUP, busy.name, {keys.requests(root_of(served)): ">"})
    assert take_back(served.key, "job-7_a").status_code == 204
    answer = call.answer()
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "cancelled")
    assert answer["X-Request-Id"] == "job-7_a"
    assert depth(queue) == 0
    assert take_back(served.key, "job-7_a").status_code == 404


def test_what_is_unknown_foreign_or_answered_is_not_there(
    ask: Ask, served: Served, queue: Redis, busy: InferenceWorker
) -> None:
    call = Waiting(served, **{"X-Request-Id": "mine"})
    wait_for_queued(queue, 1)
    refused = [take_back(served.strangers_key, "mine"), take_back(served.key, "another")]
    assert {(answer.status_code, answer.json()["error"]["code"]) for answer in refused} == {
        (404, "not_found")
    }
    busy.resume()
    answer = call.answer()
    assert (answer.status_code, answer.json()["id"], answer["X-Request-Id"]) == (200, "mine", "mine")
    assert take_back(served.key, "mine").status_code == 404


def test_two_tenants_may_use_one_name_and_one_tenant_may_not_use_it_twice_at_once(
    ask: Ask, served: Served, queue: Redis, busy: InferenceWorker, settings: Settings
) -> None:
    settings.HMI_USAGE_INTERVAL_S = 60.0  # a refusal counted in this transaction would hold up the other's
    call = Waiting(served, **{"X-Request-Id": "same"})
    wait_for_queued(queue, 1)
    client = APIClient(HTTP_AUTHORIZATION=f"Bearer {served.key}")
    body = {"model": "mood", "inputs": ["x"]}
    again = client.post("/api/v1/infer", body, format="json", headers={"X-Request-Id": "same"})
    assert (again.status_code, again.json()["error"]["code"]) == (409, "conflict")
    assert again.json()["error"]["param"] == "X-Request-Id"
    assert depth(queue) == 1
    busy.resume()
    assert call.answer().status_code == 200
    again = client.post("/api/v1/infer", body, format="json", headers={"X-Request-Id": "same"})
    assert again.status_code == 200
