"""This process's one connection to the inference workers."""

import atexit
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from redis.exceptions import RedisError

from inference.api.admission import RETRY_NO_WORKER_S, ServingState
from inference.queueing.replies import InferClient
from inference.queueing.status import roots_served_lately, workers_alive
from tenants.base.errors import ErrorCode, HmiError

log = logging.getLogger(__name__)

SEEN_FOR_S = 0.25


class Gateway:
    """An `InferClient` and what it last saw of the queue, shared by all threads of a process."""

    def __init__(self) -> None:
        self.client = InferClient(settings.REDIS_URL, capacity=settings.HMI_INFER_CAPACITY)
        self._standing = ServingState((), {})
        self._looked_at = float("-inf")

    @property
    def standing(self) -> ServingState:
        """How serving stood a moment ago. Raises RedisError."""
        self.look_if_stale()
        return self._standing

    def look_if_stale(self) -> None:
        """Look, unless that was a moment ago. Raises RedisError."""
        if time.monotonic() - self._looked_at > SEEN_FOR_S:
            self.look()

    def look(self) -> None:
        """See how serving stands now. Raises RedisError."""
        redis = self.client.redis
        self._standing = ServingState(
            workers_alive(redis), self.client.queue.outstanding(), roots_served_lately(redis)
        )
        self._looked_at = time.monotonic()


@contextmanager
def reaching_the_queue() -> Iterator[None]:
    """A queue that does not answer is the client's `worker_unavailable`."""
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
