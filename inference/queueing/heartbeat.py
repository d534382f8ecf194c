"""A worker's sign of life: a key with a short life, renewed by a thread; its value is the worker's status."""

import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from redis import Redis
from redis.exceptions import RedisError

from inference.queueing import keys

log = logging.getLogger(__name__)


class Heartbeat:
    """Keeps ``keys.worker(name)`` alive while entered. Other workers claim the work of one whose key is gone.

    ``status`` gives the bytes to store, called from the heartbeat's thread. The renewal is three times as
    frequent as need be, so that one lost beat kills nobody.
    """

    def __init__(self, redis: Redis, name: str, status: Callable[[], bytes], *, life_s: float = 10.0) -> None:
        self._redis = redis
        self._name = name
        self._status = status
        self._life_ms = int(life_s * 1000)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._try_beat()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop beating and remove the key, so that what is left can be claimed at once."""
        self._stop.set()
        self._thread.join()
        try:
            self._redis.delete(keys.worker(self._name))
            self._redis.srem(keys.WORKERS, self._name)
        except RedisError:
            log.warning("could not sign off; the heartbeat will expire by itself")

    def beat(self) -> None:
        """Renew now, for instance because the status changed."""
        self._redis.set(keys.worker(self._name), self._status(), px=self._life_ms)
        self._redis.sadd(keys.WORKERS, self._name)

    def _run(self) -> None:
        while not self._stop.wait(self._life_ms / 3000):
            self._try_beat()

    def _try_beat(self) -> None:
        try:
            self.beat()
        except RedisError as error:
            log.warning("heartbeat missed: %s", error)
