"""Requests that are waited for: by an event loop, or while a test does something else."""

import asyncio
import threading
from typing import Any

from django.db import connection
from redis import Redis
from rest_framework.test import APIClient

from inference.api.infer import InferRun
from inference.api.prepared_request import PreparedRequest
from inference.api.request_trace import RequestTrace
from inference.api.schema import InferAnswer
from tenants.usage.models import RequestApi
from tests.integration.inference.api.conftest import Served
from tests.integration.inference.queueing.requests import depth
from tests.processes import wait_until


def infer(prepared: PreparedRequest) -> InferAnswer:
    """The answer to a request that is prepared. Raises HmiError."""
    run = InferRun(prepared, RequestTrace(RequestApi.INFER, prepared.request_id))
    run.submit()
    reply = asyncio.run(run.wait())
    return run.conclude(lambda: reply)


class Waiting:
    """One infer request from another thread; ``answer`` waits for what came of it."""

    def __init__(self, served: Served, *, model: str = "mood", **headers: str) -> None:
        self._answers: list[Any] = []
        self._thread = threading.Thread(target=self._ask, args=[served.key, model, headers])
        self._thread.start()

    def _ask(self, key: str, model: str, headers: dict[str, str]) -> None:
        client = APIClient(HTTP_AUTHORIZATION=f"Bearer {key}")
        body = {"model": model, "inputs": ["x"]}
        self._answers.append(client.post("/api/v1/infer", body, format="json", headers=headers))
        connection.close()

    def answer(self) -> Any:
        """The HTTP answer."""
        self._thread.join(60)
        return self._answers[0]


def wait_for_queued(redis: Redis, count: int) -> None:
    """Until so many requests are outstanding."""
    wait_until(lambda: depth(redis) == count)
