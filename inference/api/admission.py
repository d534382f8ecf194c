"""Admission control (`admit`: workers, capacity, expected wait), and the `Gateway`: this process's queue
client with the serving state that it saw last."""

import atexit
import logging
import math
import os
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from django.conf import settings
from redis.exceptions import RedisError

from inference.number_format import format_seconds
from inference.queueing.replies import InferClient
from inference.queueing.status import WorkerStatus, roots_served_lately, workers_alive
from inference.queueing.transport import QueueFull, answers_until_room
from tenants.base.errors import ErrorCode, HmiError

log = logging.getLogger(__name__)

RETRY_SOONEST_S, RETRY_LATEST_S = 1, 60
RETRY_NO_WORKER_S = 5
RETRY_LOADING_S = 2
SEEN_FOR_S = 0.25


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """What admission reads of a request: its tenant, the digest and name of its root, its timeout in seconds.
    ``weight`` is the tenant's share of the engine beside that of others."""

    tenant: str
    root: str
    root_name: str
    seconds: float
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class ServingState:
    """The state of serving: the workers with a heartbeat, how many requests are outstanding and of how many
    tokens, by the digest of their root and by tenant, and the digests of roots ``served_lately``."""

    workers: Sequence[WorkerStatus]
    outstanding: Mapping[str, Mapping[str, int]]
    outstanding_tokens: Mapping[str, Mapping[str, int]]
    served_lately: Collection[str] = ()


def admit(request: AdmissionRequest, state: ServingState) -> None:
    """Raise ``worker_unavailable`` if no worker serves the root, and ``queue_full`` if the expected wait is
    longer than the timeout. Requests for a root that was served a moment ago wait for the next worker."""
    serving = _serving(request, state)
    wait = expected_wait_s(request, _before(serving, state.outstanding_tokens), serving)
    if wait > request.seconds:
        raise HmiError(
            ErrorCode.QUEUE_FULL,
            f"The estimated wait of {format_seconds(wait)} exceeds the timeout of "
            f"{format_seconds(request.seconds)}.",
            details={
                "expected_wait_s": round(wait, 3),
                **_counts(request.tenant, _before(serving, state.outstanding)),
            },
            retry_after=_within_bounds(wait - request.seconds),
        )


def no_room(refusal: QueueFull, request: AdmissionRequest, state: ServingState) -> HmiError:
    """The ``queue_full`` error of a request for which the queue has no place."""
    capacity: int = settings.HMI_INFER_CAPACITY
    serving = serving_root(request.root, state.workers)
    rate = _rate_of_all(worker.recently.behind_per_s for worker in serving)
    too_many = answers_until_room(refusal, capacity)
    soonest = RETRY_SOONEST_S if serving else RETRY_NO_WORKER_S
    return HmiError(
        ErrorCode.QUEUE_FULL,
        "Too many requests are waiting; try again in a moment.",
        details={"waiting": refusal.depth, "yours": refusal.own, "capacity": capacity},
        retry_after=_within_bounds(too_many / rate if rate else soonest),
    )


def expected_wait_s(
    request: AdmissionRequest, tokens: Mapping[str, int], serving: Sequence[WorkerStatus]
) -> float:
    """The expected wait in seconds, from the outstanding ``tokens`` of each tenant; 0.0 while no rate is
    known.

    Tenants take turns. Until the last of a tenant's tokens is computed, each other tenant has as many
    computed as that one has, or all it asked for; a heavier tenant's turn comes more often.
    """
    own = tokens.get(request.tenant, 0)
    turns = own / request.weight
    others = sum(min(count, turns) for tenant, count in tokens.items() if tenant != request.tenant)
    rate = _rate_of_all(worker.recently.behind_tokens_per_s for worker in serving)
    return (own + others) / rate if rate else 0.0


def _rate_of_all(rates: Iterable[float]) -> float:
    """The sum of the rates of workers with requests waiting; 0.0 if one has none, since it takes the next
    request at once."""
    each = list(rates)
    return sum(each) if all(each) else 0.0


def serving_root(root: str, workers: Iterable[WorkerStatus]) -> list[WorkerStatus]:
    """The workers that take requests for the root's models."""
    return [worker for worker in workers if worker.state == "ready" and root in worker.root_digests]


def _before(
    serving: Sequence[WorkerStatus], outstanding: Mapping[str, Mapping[str, int]]
) -> Mapping[str, int]:
    """Outstanding counts by tenant, of all roots that these workers serve."""
    roots = {root for worker in serving for root in worker.root_digests}
    counts: Counter[str] = Counter()
    for root in roots & outstanding.keys():
        counts.update(outstanding[root])
    return counts


def _serving(request: AdmissionRequest, state: ServingState) -> list[WorkerStatus]:
    serving = serving_root(request.root, state.workers)
    if serving or request.root in state.served_lately:
        return serving
    states = {worker.state for worker in state.workers}
    if "ready" in states:
        message = f"No inference worker serves the root {request.root_name} yet."
        raise _unavailable(message, "root", RETRY_LOADING_S)
    if "loading" in states:
        raise _unavailable("The inference worker is still loading.", "loading", RETRY_LOADING_S)
    raise _unavailable("No inference worker is ready.", "none", RETRY_NO_WORKER_S)


def _unavailable(message: str, reason: str, retry_after: int) -> HmiError:
    details = {"reason": reason}
    return HmiError(ErrorCode.WORKER_UNAVAILABLE, message, details=details, retry_after=retry_after)


def _counts(tenant: str, outstanding: Mapping[str, int]) -> dict[str, int]:
    return {"waiting": sum(outstanding.values()), "yours": outstanding.get(tenant, 0)}


def _within_bounds(seconds: float) -> int:
    return min(RETRY_LATEST_S, max(RETRY_SOONEST_S, math.ceil(seconds)))


class Gateway:
    """An `InferClient` and the last known state of serving, shared by all threads of a process."""

    def __init__(self) -> None:
        self.client = InferClient(settings.REDIS_URL, capacity=settings.HMI_INFER_CAPACITY)
        self._state = ServingState((), {}, {})
        self._looked_at = float("-inf")

    @property
    def state(self) -> ServingState:
        """The state of serving, at most SEEN_FOR_S old. Raises RedisError."""
        self.look_if_stale()
        return self._state

    def look_if_stale(self) -> None:
        """Read the state again if it is older than SEEN_FOR_S. Raises RedisError."""
        if time.monotonic() - self._looked_at > SEEN_FOR_S:
            self.look()

    def look(self) -> None:
        """Read the state of serving. Raises RedisError."""
        redis, queue = self.client.redis, self.client.queue
        self._state = ServingState(
            workers_alive(redis),
            queue.outstanding(),
            queue.outstanding_tokens(),
            roots_served_lately(redis),
        )
        self._looked_at = time.monotonic()


@contextmanager
def reaching_the_queue() -> Iterator[None]:
    """Turn a RedisError within the block into `worker_unavailable`."""
    try:
        yield
    except RedisError as error:
        log.error("The infer queue cannot be reached: %s", error)
        raise HmiError(
            ErrorCode.WORKER_UNAVAILABLE,
            "The infer queue cannot be reached.",
            details={"reason": "queue"},
            retry_after=RETRY_NO_WORKER_S,
        ) from error


_lock = threading.Lock()
_gateway: Gateway | None = None
_made_by = 0


def gateway() -> Gateway:
    """The gateway, made on first use: its reading thread would not survive the fork of a web server."""
    global _gateway, _made_by
    with _lock:
        if _gateway is None or _made_by != os.getpid():
            _gateway, _made_by = Gateway(), os.getpid()
        return _gateway


@atexit.register
def close_gateway() -> None:
    """Stop reading replies and remove the reply stream; the next use makes a new gateway."""
    global _gateway
    with _lock:
        mine, _gateway = _gateway if _made_by == os.getpid() else None, None
    if mine is not None:
        try:
            mine.client.close()
        except RedisError:
            # The server went first; the stream expires by itself.
            return
