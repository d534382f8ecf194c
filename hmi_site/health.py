"""Is this process alive, and can it serve? For load balancers, the launcher and people."""

import logging
import threading
import time
from collections.abc import Callable

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from inference.queueing.status import WorkerStatus, workers_alive

log = logging.getLogger(__name__)

TIMEOUT_S = 2.0
SEEN_FOR_S = 1.0
"""What was found is told for so long: anybody may ask, as often as they like."""

Parts = dict[str, str]


@never_cache
@require_safe
def live(request: HttpRequest) -> JsonResponse:  # noqa: ARG001 - a view
    """200 as long as this process answers at all."""
    return JsonResponse({"status": "live"})


@never_cache
@require_safe
def ready(request: HttpRequest) -> JsonResponse:  # noqa: ARG001 - a view
    """200 when the database and Redis answer and an inference worker is ready, else 503 and which is not."""
    parts = _readiness.parts()
    good = _is_good(parts)
    return JsonResponse({"status": "ready" if good else "not ready", **parts}, status=200 if good else 503)


@never_cache
@require_safe
def oip_live(request: HttpRequest) -> JsonResponse:  # noqa: ARG001 - a view
    """`live`, as the Open Inference Protocol has it."""
    return JsonResponse({"live": True})


@never_cache
@require_safe
def oip_ready(request: HttpRequest) -> JsonResponse:  # noqa: ARG001 - a view
    """`ready`, as the Open Inference Protocol has it."""
    good = _is_good(_readiness.parts())
    return JsonResponse({"ready": good}, status=200 if good else 503)


def ready_workers() -> list[WorkerStatus]:
    """The inference workers that take requests; raises redis.RedisError."""
    with _client() as client:
        return [worker for worker in workers_alive(client) if worker.state == "ready"]


class Readiness:
    """What the parts of the product were found to be, looked at by one thread at a time and at most once in
    SEEN_FOR_S. For any threads."""

    def __init__(self) -> None:
        self._looking = threading.Lock()
        self._found: Parts = {}
        self._found_at = float("-inf")

    def parts(self) -> Parts:
        """By name; while another thread looks, what was found before."""
        if time.monotonic() - self._found_at > SEEN_FOR_S and self._looking.acquire(blocking=not self._found):
            try:
                if time.monotonic() - self._found_at > SEEN_FOR_S:  # nobody has looked while this one waited
                    self._found = _parts()
                    self._found_at = time.monotonic()
            finally:
                self._looking.release()
        return self._found


_readiness = Readiness()


def _parts() -> Parts:
    return {"database": _state(_database), "redis": _state(_redis), "inference_worker": _state(_worker)}


def _is_good(parts: Parts) -> bool:
    return all(state == "ok" for state in parts.values())


def _database() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return True


def _redis() -> bool:
    with _client() as client:
        return bool(client.ping())


def _worker() -> bool:
    return bool(ready_workers())


def _state(probe: Callable[[], bool]) -> str:
    try:
        return "ok" if probe() else "missing"
    except (DatabaseError, redis.RedisError) as error:
        log.warning("not ready: %s", error)
        return "failed"


def _client() -> redis.Redis:
    return redis.Redis.from_url(
        settings.REDIS_URL, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S
    )
