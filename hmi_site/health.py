"""Health checks: liveness and readiness."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpRequest, JsonResponse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from hmi_site.launcher.supervisor import recent_restarts
from inference.queueing.status import WorkerStatus, workers_alive
from tenants.base.disk_watch import low_disks

log = logging.getLogger(__name__)

TIMEOUT_S = 2.0
CACHE_S = 1.0
"""Results are cached, since the endpoint is public."""
DOWN = "down"
"""The state of a process that ends again and again (see `Supervisor`)."""
ROOTS = "roots"
"""Listed if inference workers could not load all roots."""

Parts = dict[str, str]


@never_cache
@require_safe
def live(request: HttpRequest) -> JsonResponse:  # noqa: ARG001 - a view
    """200 while this process responds."""
    return JsonResponse({"status": "live"})


@never_cache
@require_safe
def ready(request: HttpRequest) -> JsonResponse:  # noqa: ARG001 - a view
    """200 if the database and Redis respond and an inference worker is ready, else 503. Lists each state, the
    other processes that are down, the roots that no worker could load, and whether a disk is nearly full:
    these do not change the status code."""
    parts = _readiness.parts()
    good, degraded = _is_good(parts), DOWN in parts.values() or ROOTS in parts
    status = ("degraded" if degraded else "ready") if good else "not ready"
    return JsonResponse({"status": status, **parts}, status=200 if good else 503)


@never_cache
@require_safe
def oip_live(request: HttpRequest) -> JsonResponse:  # noqa: ARG001 - a view
    """`live` in the format of the Open Inference Protocol."""
    return JsonResponse({"live": True})


@never_cache
@require_safe
def oip_ready(request: HttpRequest) -> JsonResponse:  # noqa: ARG001 - a view
    """`ready` in the format of the Open Inference Protocol."""
    good = _is_good(_readiness.parts())
    return JsonResponse({"ready": good}, status=200 if good else 503)


def started_workers() -> list[WorkerStatus]:
    """The inference workers that are ready, or that could load none of their roots and try again. Raises
    redis.RedisError."""
    return [worker for worker in _workers() if worker.state == "ready" or worker.missing_roots]


def missing_roots() -> list[str]:
    """The names of the roots that an inference worker could not load and no other one serves. Raises
    redis.RedisError."""
    workers = _workers()
    served = {digest for worker in workers if worker.state == "ready" for digest in worker.root_digests}
    missing = {
        digest: name
        for worker in workers
        for digest, name in zip(worker.missing_root_digests, worker.missing_roots, strict=True)
    }
    return sorted({name for digest, name in missing.items() if digest not in served})


class Readiness:
    """The cached state of each dependency. Thread-safe; one thread at a time refreshes it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parts: Parts = {}
        self._checked_at = float("-inf")

    def parts(self) -> Parts:
        """The states by name. While another thread refreshes them, the previous ones."""
        if time.monotonic() - self._checked_at > CACHE_S and self._lock.acquire(blocking=not self._parts):
            try:
                if time.monotonic() - self._checked_at > CACHE_S:
                    self._parts = _parts()
                    self._checked_at = time.monotonic()
            finally:
                self._lock.release()
        return self._parts


_readiness = Readiness()


def _parts() -> Parts:
    parts = {name: _state(probe) for name, probe in _NEEDED.items()}
    parts["disk"] = "nearly full" if low_disks() else "ok"
    with suppress(redis.RedisError):  # it is named already
        if missing := missing_roots():
            parts[ROOTS] = f"missing: {', '.join(missing)}"
    for restart in recent_restarts(settings.HMI_RUNTIME_DIR, timezone.now()):
        name = restart.name.lower().replace(" ", "_")
        if restart.is_down and parts.get(name) != "ok":
            log.error("%s is down; the last time it %s", restart.name, restart.reason)
            parts[name] = DOWN
    return parts


def _is_good(parts: Parts) -> bool:
    return all(parts[name] == "ok" for name in _NEEDED)


def _database() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return True


def _redis() -> bool:
    with _client() as client:
        return bool(client.ping())


def _workers() -> list[WorkerStatus]:
    with _client() as client:
        return workers_alive(client)


def _worker() -> bool:
    return any(worker.state == "ready" for worker in _workers())


_NEEDED: Final[Mapping[str, Callable[[], bool]]] = {
    "database": _database,
    "redis": _redis,
    "inference_worker": _worker,
}


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
