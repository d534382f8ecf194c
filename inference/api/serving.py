"""How serving stands, for the page of those who run it."""

from dataclasses import dataclass

from django.conf import settings

from inference.api.client import gateway
from inference.queueing.status import WorkerStatus, workers_alive
from inference.queueing.traces import ask_trace


@dataclass(frozen=True, slots=True)
class Serving:
    """The queue and the workers that have a heartbeat."""

    outstanding: int
    capacity: int
    workers: list[WorkerStatus]


def trace_of(worker: str) -> bytes | None:
    """What the pipeline of a worker did last, for a trace viewer; None when no such worker is there, or it
    does not answer within seconds. Raises RedisError when it cannot be asked."""
    redis = gateway().client.redis
    alive = any(status.name == worker for status in workers_alive(redis))
    return ask_trace(redis, worker) if alive else None


def serving_now() -> Serving:
    """As of this moment. Raises RedisError when the queue cannot be reached."""
    client = gateway().client
    return Serving(client.queue.depth(), settings.HMI_INFER_CAPACITY, workers_alive(client.redis))
