"""How serving stands, for the page of those who run it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from django.conf import settings

from inference.api.client import gateway
from inference.queueing.asking import DONE, TRACE, ask
from inference.queueing.status import WorkerStatus, workers_alive


@dataclass(frozen=True, slots=True)
class Serving:
    """The queue and the workers that have a heartbeat. ``by_root`` is what is outstanding by the root's
    digest."""

    outstanding: int
    capacity: int
    workers: list[WorkerStatus]
    by_root: Mapping[str, int] = field(default_factory=dict)


def trace_of(worker: str) -> bytes | None:
    """What the pipeline of a worker did last, for a trace viewer; None when no such worker is there, or it
    does not answer within seconds. Raises RedisError when it cannot be asked."""
    redis = gateway().client.redis
    alive = any(status.name == worker for status in workers_alive(redis))
    return ask(redis, worker, TRACE) if alive else None


def order(worker: str, what: str) -> bool:
    """Tell a worker to ``drain``, ``resume`` or ``refresh``; False when it did not obey within seconds.
    Raises RedisError when it cannot be told."""
    return ask(gateway().client.redis, worker, what) == DONE


def serving_now() -> Serving:
    """As of this moment. Raises RedisError when the queue cannot be reached."""
    client = gateway().client
    by_root = {root: sum(tenants.values()) for root, tenants in client.queue.outstanding().items()}
    capacity: int = settings.HMI_INFER_CAPACITY
    return Serving(client.queue.depth(), capacity, workers_alive(client.redis), by_root)
