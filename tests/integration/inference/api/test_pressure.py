"""A worker that is busy: the queue fills, deadlines pass, and what was accepted is answered."""

import redis
from rest_framework.test import APIClient

from inference.api.admission import close_gateway
from tenants.usage.models import UsageDay
from tests.integration.inference.api.conftest import Ask, Served
from tests.integration.inference.queueing.requests import depth
from tests.processes import InferenceWorker, wait_until


def test_timeout_of_the_header_passes_and_the_request_counts_as_failed(
    busy: InferenceWorker, served: Served, db: None, redis_url: str
) -> None:
    before = failures(served)
    client = APIClient(HTTP_AUTHORIZATION=f"Bearer {served.key}")
    body = {"model": "places", "inputs": ["x"]}
    answer = client.post("/api/v1/infer", body, format="json", HTTP_X_TIMEOUT_S="0.2")
    assert (answer.status_code, answer.json()["error"]["code"]) == (504, "deadline_exceeded")
    assert failures(served) == before + 1
    busy.resume()
    with redis.Redis.from_url(redis_url) as connection:
        wait_until(lambda: depth(connection) == 0)


def test_request_without_a_ready_worker_is_refused_and_takes_nothing(
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
