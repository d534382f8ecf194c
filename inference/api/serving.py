"""How serving stands, for the page of those who run it."""

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
    """What the pipeline of a worker did last, for a trace viewer; None when no such worker is there, or it
    does not answer within seconds. Raises RedisError when it cannot be asked."""
    return _asked(worker, TRACE)


def order(worker: str, what: str) -> bool:
    """Tell a worker to ``drain``, ``resume`` or ``refresh``; False when no such worker is there, or it did
    not obey within seconds. Raises RedisError when it cannot be told."""
    return _asked(worker, what) == DONE


def _asked(worker: str, what: str) -> bytes | None:
    """What a worker that is there answers. Nobody waits for one that is not."""
    redis = gateway().client.redis
    alive = any(status.name == worker for status in workers_alive(redis))
    return ask(redis, worker, what) if alive else None


def serving_now() -> Serving:
    """As of this moment. Raises RedisError when the queue cannot be reached."""
    client = gateway().client
    by_root = {root: sum(tenants.values()) for root, tenants in client.queue.outstanding().items()}
    capacity: int = settings.HMI_INFER_CAPACITY
    return Serving(client.queue.depth(), capacity, workers_alive(client.redis), by_root)
