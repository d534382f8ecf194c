"""Asking a running worker for something, and telling it to do something: by name, past the requests.

Who asks names a list of its own and waits there; the worker puts its answer into it. What the worker says
about itself without being asked comes with its heartbeat.
"""

import logging
import threading
import uuid
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, Self

from redis import Redis
from redis.exceptions import RedisError

log = logging.getLogger(__name__)

ASKED_PREFIX: Final = "hmi:asked:"
TOLD_PREFIX: Final = "hmi:told:"
BLOCK_S = 0.5
LIFE_S = 30

TRACE: Final = "trace"
"""What the pipeline did last, for a trace viewer."""
DRAIN: Final = "drain"
"""Take no more requests; what is taken in is still answered."""
RESUME: Final = "resume"
"""Take requests again."""
REFRESH: Final = "refresh"
"""Read the manifest again, and try again to load what could not be loaded."""
DONE: Final = b"done"


def ask(redis: Redis, worker: str, what: str, *, within_s: float = 5.0) -> bytes | None:
    """What the worker answers, or None when it does not in time. Raises RedisError."""
    asked, told = ASKED_PREFIX + worker, TOLD_PREFIX + uuid.uuid4().hex
    with redis.pipeline() as pipeline:
        pipeline.rpush(asked, f"{what} {told}")
        pipeline.expire(asked, LIFE_S)
        pipeline.execute()
    found: Any = redis.blpop([told], timeout=within_s)
    return found[1] if found else None


class CommandListener:
    """While entered, answers whoever asks the worker, from a thread of its own that calls the answer to what
    was asked. ``redis`` is the thread's own connection."""

    def __init__(self, redis: Redis, worker: str, answers: Mapping[str, Callable[[], bytes]]) -> None:
        self._redis = redis
        self._asked = ASKED_PREFIX + worker
        self._answers = answers
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="teller", daemon=True)

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
                    self._answer(found[1].decode(errors="replace"))
            except RedisError as error:
                log.debug("nobody can ask: %s", error)  # the heartbeat says it aloud
                self._stop.wait(BLOCK_S)

    def _answer(self, asked: str) -> None:
        what, _, told = asked.partition(" ")
        if what not in self._answers or not told.startswith(TOLD_PREFIX):
            log.error("the worker was asked something that it does not know: %r", asked)
            return
        with self._redis.pipeline() as pipeline:
            pipeline.rpush(told, self._answers[what]())
            pipeline.expire(told, LIFE_S)
            pipeline.execute()
