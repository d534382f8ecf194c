"""The state of the queue and the workers, and commands to workers, for administrators."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from django.conf import settings

from inference.api.admission import gateway
from inference.queueing.status import WorkerStatus, workers_alive
from inference.queueing.worker_commands import DONE, TRACE, ask


@dataclass(frozen=True, slots=True)
class Serving:
    """The queue and the workers that have a heartbeat. ``by_root`` is what is outstanding by the root's
    digest."""

    outstanding: int
    capacity: int
    workers: list[WorkerStatus]
    by_root: Mapping[str, int] = field(default_factory=dict)


def trace_of(worker: str) -> bytes | None:
    """A trace of the worker's last batches, for a trace viewer; None if there is no such worker, or it does
    not answer within seconds. Raises RedisError."""
    return _asked(worker, TRACE)


def order(worker: str, what: str) -> bool:
    """Send the command ``drain``, ``resume`` or ``refresh``; False if there is no such worker, or it does not
    answer within seconds. Raises RedisError."""
    return _asked(worker, what) == DONE


def _asked(worker: str, what: str) -> bytes | None:
    """The answer of the worker; None at once if it has no heartbeat."""
    redis = gateway().client.redis
    alive = any(status.name == worker for status in workers_alive(redis))
    return ask(redis, worker, what) if alive else None


def serving_now() -> Serving:
    """The present state. Raises RedisError if the queue cannot be reached."""
    client = gateway().client
    by_root = {root: sum(tenants.values()) for root, tenants in client.queue.outstanding().items()}
    capacity: int = settings.HMI_INFER_CAPACITY
    return Serving(client.queue.depth(), capacity, workers_alive(client.redis), by_root)
