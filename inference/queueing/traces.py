"""The trace of a running worker, for whoever asks: it is too large to go with every heartbeat.

Who asks names a list of its own and waits there; the worker puts its trace into it.
"""

import logging
import threading
import uuid
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

from redis import Redis
from redis.exceptions import RedisError

log = logging.getLogger(__name__)

ASKED_PREFIX: Final = "hmi:traces:asked:"
TOLD_PREFIX: Final = "hmi:traces:told:"
BLOCK_S = 0.5
LIFE_S = 30


def ask_trace(redis: Redis, worker: str, *, within_s: float = 5.0) -> bytes | None:
    """What the worker tells, or None when it does not in time. Raises RedisError."""
    asked, told = ASKED_PREFIX + worker, TOLD_PREFIX + uuid.uuid4().hex
    with redis.pipeline() as pipeline:
        pipeline.rpush(asked, told)
        pipeline.expire(asked, LIFE_S)
        pipeline.execute()
    found: Any = redis.blpop([told], timeout=within_s)
    return found[1] if found else None


class TraceTeller:
    """While entered, answers whoever asks for the worker's trace, from a thread of its own that calls
    ``tell``. ``redis`` is the thread's own connection."""

    def __init__(self, redis: Redis, worker: str, tell: Callable[[], bytes]) -> None:
        self._redis = redis
        self._asked = ASKED_PREFIX + worker
        self._tell = tell
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, within half a second."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                found: Any = self._redis.blpop([self._asked], timeout=BLOCK_S)
                if found:
                    self._answer(found[1].decode())
            except RedisError as error:
                log.debug("nobody can ask for the trace: %s", error)  # the heartbeat says it aloud
                self._stop.wait(BLOCK_S)

    def _answer(self, told: str) -> None:
        if not told.startswith(TOLD_PREFIX):
            log.error("a trace was asked for at %s", told)
            return
        with self._redis.pipeline() as pipeline:
            pipeline.rpush(told, self._tell())
            pipeline.expire(told, LIFE_S)
            pipeline.execute()
