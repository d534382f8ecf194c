"""Sends requests of a batch in the background, again and again until they have an answer that counts."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from redis.exceptions import RedisError

from inference.queueing.replies import InferClient, NoReply
from inference.queueing.transport import CANCELLED, CallOutstanding, QueueFull
from tenants.base.errors import ErrorCode

PUBLISH_TIMEOUT_S: Final = 60.0
"""Inference workers learn of a new model within this time, so ``not_found`` is retried until then."""
RETRY_INTERVAL_S: Final = 0.5
RETRYABLE_CODES: Final = frozenset({CANCELLED, ErrorCode.DEADLINE_EXCEEDED.value})
UNPUBLISHED_CODES: Final = frozenset({ErrorCode.NOT_FOUND.value, ErrorCode.MODEL_NOT_READY.value})
Result = TypeVar("Result")
Attempt = Callable[[str], tuple[str, Result]]
"""Sends the call of this name once. Returns the error code of its reply, empty for a success, and the result.
Raises QueueFull, NoReply, CallOutstanding and RedisError."""


class InferenceCancelled(Exception):
    """The client was cancelled while a request waited for its reply."""


class BackgroundCalls:
    """The calls of one batch, by name. Threads may share it.

    ``batch`` is part of each name, so that a call of a killed process is cancelled and not computed twice.
    """

    def __init__(self, client: InferClient, tenant: str, batch: str) -> None:
        self._client, self._tenant, self._batch = client, tenant, batch
        self._cancelled = threading.Event()
        self._outstanding: set[str] = set()

    @property
    def cancelled(self) -> bool:
        """Whether no more answers are wanted."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Cancel the outstanding calls. Threads that wait for them get InferenceCancelled."""
        self._cancelled.set()
        with suppress(RedisError):  # then they are computed in vain
            for call in list(self._outstanding):
                self._client.queue.cancel(self._tenant, call)

    def send(self, name: str, attempt: Attempt[Result]) -> Result:
        """The result of the first attempt that is not to be repeated. Raises InferenceCancelled."""
        call, published = f"batch-{self._batch}-{name}", time.monotonic() + PUBLISH_TIMEOUT_S
        self._outstanding.add(call)
        try:
            while not self.cancelled:
                outcome = self._try(call, attempt)
                if outcome is not None:
                    code, result = outcome
                    unknown = code in UNPUBLISHED_CODES and time.monotonic() < published
                    if code not in RETRYABLE_CODES and not unknown:
                        return result
                self._cancelled.wait(RETRY_INTERVAL_S)
            raise InferenceCancelled
        finally:
            self._outstanding.discard(call)

    def _try(self, call: str, attempt: Attempt[Result]) -> tuple[str, Result] | None:
        """One attempt. None if it should be repeated."""
        with suppress(QueueFull, NoReply, RedisError):
            try:
                return attempt(call)
            except CallOutstanding:  # of a process that was killed
                self._client.queue.cancel(self._tenant, call)
        return None
