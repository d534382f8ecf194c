"""A worker that is busy: the queue fills, deadlines pass, and what was accepted is answered."""

import time

import pytest
import redis
from pytest_django import Settings
from rest_framework.test import APIClient

from inference.api.admission import close_gateway
from tenants.usage.models import UsageDay
from tests.integration.inference.api.conftest import Ask, Served
from tests.integration.inference.queueing.requests import depth
from tests.processes import InferenceWorker, wait_until


@pytest.mark.parametrize("by_header", [False, True])
def test_a_deadline_that_passes_is_a_timeout_and_counts(
    busy: InferenceWorker, served: Served, db: None, redis_url: str, by_header: bool
) -> None:
    before = failures(served)
    client = APIClient(HTTP_AUTHORIZATION=f"Bearer {served.key}")
    body = {"model": "places", "inputs": ["x"]}
    began = time.monotonic()
    if by_header:
        answer = client.post("/api/v1/infer", body, format="json", HTTP_X_TIMEOUT_S="0.2")
    else:
        answer = client.post("/api/v1/infer", {**body, "timeout_s": 0.2}, format="json")
    assert (answer.status_code, answer.json()["error"]["code"]) == (504, "deadline_exceeded")
    assert time.monotonic() - began < 20
    assert failures(served) == before + 1
    busy.resume()
    with redis.Redis.from_url(redis_url) as connection:
        wait_until(lambda: depth(connection) == 0)


def test_no_request_waits_longer_than_the_installation_allows(
    busy: InferenceWorker, ask: Ask, settings: Settings
) -> None:
    settings.HMI_INFER_DEADLINE_S = 0.2
    began = time.monotonic()
    assert ask("mood", timeout_s=3600).status_code == 504
    assert time.monotonic() - began < 20


def test_without_a_ready_worker_nothing_is_accepted(
    busy: InferenceWorker, ask: Ask, served: Served, redis_client: redis.Redis
) -> None:
    """Valkey was emptied: no worker has signed on."""
    close_gateway()
    before = used(served)
    answer = ask("mood")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "worker_unavailable")
    assert int(answer["Retry-After"]) > 0
    assert depth(redis_client) == 0
    assert used(served) == [before[0] + 1, before[1] + 1, before[2]], "it failed, and took nothing"


def used(served: Served) -> list[int]:
    """Requests, failed ones, and tokens of all models."""
    days = list(UsageDay.objects.for_tenant(served.world.tenant))
    return [sum(getattr(day, name) for day in days) for name in ("requests", "failed", "tokens")]


def failures(served: Served) -> int:
    """Requests of `places` that ended in an error."""
    days = UsageDay.objects.for_tenant(served.world.tenant).filter(model_name="places")
    return sum(day.failed for day in days)
