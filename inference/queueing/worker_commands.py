"""Commands to a running inference worker, by its name, past the requests.

The sender names a list for the reply and waits there. What a worker reports by itself comes with its
heartbeat.
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

COMMANDS_PREFIX: Final = "hmi:commands:"
REPLY_PREFIX: Final = "hmi:command-reply:"
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


def ask(redis: Redis, worker: str, command: str, *, within_s: float = 5.0) -> bytes | None:
    """Send a command; the reply, or None if there is none in time. Raises RedisError."""
    commands, reply = COMMANDS_PREFIX + worker, REPLY_PREFIX + uuid.uuid4().hex
    with redis.pipeline() as pipeline:
        pipeline.rpush(commands, f"{command} {reply}")
        pipeline.expire(commands, LIFE_S)
        pipeline.execute()
    found: Any = redis.blpop([reply], timeout=within_s)
    return found[1] if found else None


class CommandListener:
    """While entered, runs the handlers of commands in a thread of its own. redis: that thread's own
    connection."""

    def __init__(self, redis: Redis, worker: str, answers: Mapping[str, Callable[[], bytes]]) -> None:
        self._redis = redis
        self._commands = COMMANDS_PREFIX + worker
        self._answers = answers
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="commands", daemon=True)

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
                found: Any = self._redis.blpop([self._commands], timeout=BLOCK_S)
                if found:
                    self._answer(found[1].decode(errors="replace"))
            except RedisError as error:
                log.debug("no commands can be received: %s", error)  # the heartbeat says it aloud
                self._stop.wait(BLOCK_S)

    def _answer(self, message: str) -> None:
        command, _, reply = message.partition(" ")
        if command not in self._answers or not reply.startswith(REPLY_PREFIX):
            log.error("unknown command: %r", message)
            return
        with self._redis.pipeline() as pipeline:
            pipeline.rpush(reply, self._answers[command]())
            pipeline.expire(reply, LIFE_S)
            pipeline.execute()
