"""A worker's heartbeat: a key that expires, renewed by a thread; its value is the worker's status."""

import logging
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from redis import Redis
from redis.exceptions import RedisError

from inference.periodic_thread import PeriodicThread
from inference.queueing import keys

log = logging.getLogger(__name__)


class Heartbeat:
    """Keeps ``keys.worker(name)`` alive while entered. Other workers claim the work of one whose key is gone.

    ``status`` gives the bytes to store, called from the heartbeat's thread. The renewal is three times as
    frequent as need be, so that one lost beat kills nobody. ``hangs`` is asked before each beat: once it says
    so the key is removed, there are no more beats, and ``on_hang`` is called. ``roots`` are the digests of
    those it takes requests for: they outlast a worker that did not sign off (`status.roots_served_lately`).
    """

    def __init__(
        self,
        redis: Redis,
        name: str,
        status: Callable[[], bytes],
        *,
        life_s: float = 10.0,
        roots: Callable[[], Iterable[str]] = lambda: (),
        hangs: Callable[[], bool] = lambda: False,
        on_hang: Callable[[], None] = lambda: None,
    ) -> None:
        self._redis = redis
        self._name = name
        self._status = status
        self._life_ms = int(life_s * 1000)
        self._roots = roots
        self._served: set[str] = set()
        self._hangs = hangs
        self._on_hang = on_hang
        self._thread = PeriodicThread("heartbeat", self._renew, interval_s=beat_s(life_s))

    def __enter__(self) -> Self:
        self._try_beat()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop beating and remove the key, so that what is left can be claimed at once, and the roots, unless
        an error ends the worker: another is expected then."""
        self._thread.stop()
        if error is None:
            self._roots = lambda: ()
        self._sign_off()

    def _sign_off(self) -> None:
        try:
            self._note_roots()
            self._redis.delete(keys.worker(self._name))
            self._redis.srem(keys.WORKERS, self._name)
        except RedisError:
            log.warning("could not sign off; the heartbeat will expire by itself")

    def beat(self) -> None:
        """Renew now, for instance because the status changed."""
        self._redis.set(keys.worker(self._name), self._status(), px=self._life_ms)
        self._redis.sadd(keys.WORKERS, self._name)
        self._note_roots()

    def _note_roots(self) -> None:
        roots = set(self._roots())
        if over := self._served - roots:
            self._redis.zrem(keys.SERVED_ROOTS, *over)
        if roots:
            self._redis.zadd(keys.SERVED_ROOTS, dict.fromkeys(roots, time.time()))
        self._served = roots

    def _renew(self) -> bool:
        if self._hangs():
            self._sign_off()
            self._on_hang()
            return False
        self._try_beat()
        return True

    def _try_beat(self) -> None:
        try:
            self.beat()
        except RedisError as error:
            log.warning("heartbeat missed: %s", error)


def beat_s(life_s: float) -> float:
    """Seconds from one beat to the next."""
    return life_s / 3
