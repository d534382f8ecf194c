"""Waiting for answers: one reply stream and one reading thread for a whole process."""

import logging
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from redis import Redis
from redis.exceptions import RedisError

from inference.queueing import keys
from inference.queueing.connection import connect
from inference.queueing.messages import (
    CALL_END,
    InferInput,
    InferReply,
    InferRequest,
    MessageError,
    ModelRef,
)
from inference.queueing.transport import RequestQueue

log = logging.getLogger(__name__)

BLOCK_MS = 1000
GRACE_S = 2.0


class NoReply(Exception):
    """Nothing came back in time: no worker is running, or it is far behind."""


class ReplyReader:
    """Reads one reply stream in a thread, wakes whoever waits for the id, drops what nobody expects."""

    def __init__(self, redis: Redis, stream: str) -> None:
        self.stream = stream
        self._redis = redis
        self._waiting: dict[str, _Waiter] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="replies", daemon=True)
        self._thread.start()

    def expect(self, request_id: str) -> None:
        """Announce the id before the request is submitted, or its reply may pass by."""
        with self._lock:
            self._waiting.setdefault(request_id, _Waiter())

    def wait(self, request_id: str, timeout: float) -> InferReply | None:
        """The reply to an expected id, or None after ``timeout`` seconds; then it is no longer expected."""
        with self._lock:
            waiter = self._waiting.get(request_id)
        if waiter is None:
            raise KeyError(f"{request_id} is not expected")
        waiter.arrived.wait(timeout)
        self.forget(request_id)
        return waiter.reply

    def forget(self, request_id: str) -> None:
        """Stop expecting the id; its reply will be dropped."""
        with self._lock:
            self._waiting.pop(request_id, None)

    def close(self) -> None:
        """Stop the thread, within a second, and remove the stream."""
        self._stop.set()
        self._thread.join()
        self._redis.delete(self.stream)

    def _run(self) -> None:
        position = b"0-0"
        while not self._stop.is_set():
            try:
                streams: Any = self._redis.xread({self.stream: position}, block=BLOCK_MS)
                for _, entries in streams or ():
                    for entry_id, fields in entries:
                        self._deliver(fields.get(keys.FIELD.encode(), b""))
                        position = entry_id
                    self._redis.xtrim(self.stream, minid=position, approximate=False)
            except RedisError as error:
                log.warning("waiting for replies: %s", error)
                self._stop.wait(0.5)

    def _deliver(self, payload: bytes) -> None:
        try:
            reply = InferReply.from_json(payload)
        except MessageError as error:
            own = {"request_id": error.request_id}
            log.error("unreadable reply %s: %s", error.request_id, error, extra=own)
            return
        with self._lock:
            waiter = self._waiting.get(reply.id)
        if waiter is not None:
            waiter.reply = reply
            waiter.arrived.set()


class _Waiter:
    __slots__ = ("arrived", "reply")

    def __init__(self) -> None:
        self.arrived = threading.Event()
        self.reply: InferReply | None = None


class InferClient:
    """Submit and wait, from any number of threads of one process. Make it after forking. In the
    ``background``, all that is asked is computed when nothing else waits."""

    def __init__(self, url: str, *, capacity: int, background: bool = False) -> None:
        self.redis = connect(url)
        self.queue = RequestQueue(self.redis, capacity=capacity, background=background)
        self._reader = ReplyReader(connect(url), keys.replies(uuid.uuid4().hex))

    def ask(
        self,
        model: ModelRef,
        inputs: tuple[InferInput, ...],
        *,
        root: str,
        seconds: float,
        call: str | None = None,
        miss_policy: str | None = None,
        explain: bool = False,
        embed: bool = False,
        on_accepted: Callable[[], None] | None = None,
    ) -> InferReply:
        """The answer to ``inputs``, which the worker drops with ``deadline_exceeded`` after ``seconds``.
        ``root`` is the digest of the model's root; ``call`` is the name to cancel it by; ``on_accepted`` is
        called when it may be cancelled.

        Raises QueueFull and CallOutstanding; NoReply when there is no answer at all; redis errors when there
        is no server.
        """
        now = time.time()
        request = InferRequest(
            id=f"{call}{CALL_END}{uuid.uuid4().hex[:12]}" if call else uuid.uuid4().hex,
            tenant=model.tenant,
            hplm=model.hplm,
            version=model.version,
            digest=model.digest,
            root=root,
            inputs=inputs,
            deadline=now + seconds,
            enqueued_at=now,
            reply_to=self._reader.stream,
            miss_policy=miss_policy,
            explain=explain,
            embed=embed,
        )
        self._reader.expect(request.id)
        try:
            self.queue.submit(request)
            if on_accepted is not None:
                on_accepted()
            reply = self._reader.wait(request.id, seconds + GRACE_S)
        finally:
            self._reader.forget(request.id)
        if reply is None:
            raise NoReply(f"no answer to {request.id} within {seconds:g} s")
        return reply

    def close(self) -> None:
        self._reader.close()
        self.redis.close()
