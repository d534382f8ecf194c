"""This process's one connection to the inference workers."""

import atexit
import os
import threading
import time

from django.conf import settings
from redis.exceptions import RedisError

from inference.queueing.replies import InferClient
from inference.queueing.status import workers_alive

WORKERS_SEEN_FOR_S = 1.0


class Gateway:
    """An `InferClient` and what it last saw of the workers, shared by all threads of a process."""

    def __init__(self) -> None:
        self.client = InferClient(settings.REDIS_URL, capacity=settings.HMI_INFER_CAPACITY)
        self._ready = False
        self._looked_at = float("-inf")

    def has_ready_worker(self) -> bool:
        """Whether some worker answers requests, as of at most a second ago. Raises RedisError."""
        if time.monotonic() - self._looked_at > WORKERS_SEEN_FOR_S or not self._ready:
            alive = workers_alive(self.client.redis)
            self._ready = any(worker.state == "ready" for worker in alive)
            self._looked_at = time.monotonic()
        return self._ready


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
