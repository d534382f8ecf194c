"""How serving stands, for the page of those who run it."""

from dataclasses import dataclass

from django.conf import settings

from inference.api.client import gateway
from inference.queueing.status import WorkerStatus, workers_alive


@dataclass(frozen=True, slots=True)
class Serving:
    """The queue and the workers that have a heartbeat."""

    outstanding: int
    capacity: int
    workers: list[WorkerStatus]


def serving_now() -> Serving:
    """As of this moment. Raises RedisError when the queue cannot be reached."""
    client = gateway().client
    return Serving(client.queue.depth(), settings.HMI_INFER_CAPACITY, workers_alive(client.redis))
