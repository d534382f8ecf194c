"""Waiting for answers: one stream of replies, one of tokens, and one reading thread for a whole process."""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NotRequired, TypedDict, Unpack

from redis import Redis
from redis.exceptions import RedisError

from inference.cascade.dispatcher import Dispatcher, Level
from inference.generation.requests import SamplingParams
from inference.queueing import keys
from inference.queueing.connection import connect
from inference.queueing.messages import (
    CALL_END,
    GeneratedToken,
    InferReply,
    InferRequest,
    MessageError,
    ModelRef,
    TokenSequence,
)
from inference.queueing.token_stream import CompletionReader, TokenFeed
from inference.queueing.transport import NO_MODEL, RequestQueue

log = logging.getLogger(__name__)

BLOCK_MS = 1000
GRACE_S = 2.0
READ_KEPT = 256
"""So many replies that were read stay in the stream at most,"""
READ_BYTES_KEPT = 1 << 20
"""and so many bytes of them."""
AT_ONCE = 64
WAKE = b"wake"
"""The field of an entry that is no reply, and has the reader look whether it is to stop."""

OnReply = Callable[[InferReply], None]
OnToken = Callable[[GeneratedToken], None]


class NoReply(Exception):
    """Nothing came back in time: no worker is running, or it is far behind."""


class ReplyReader:
    """Reads one reply stream, and the stream of tokens beside it, in a thread; passes each reply and token
    to the callback that expects it, drops the others. What was read is removed from the stream when nothing
    comes, and when it is much: an answer does not stay there for hours."""

    def __init__(self, redis: Redis, stream: str) -> None:
        self.stream = stream
        self._redis = redis
        self._expected: dict[str, OnReply] = {}
        self._continued: dict[str, OnToken] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="replies", daemon=True)
        self._thread.start()

    def expect(self, request_id: str, on_reply: OnReply, on_token: OnToken | None = None) -> None:
        """Announce the id before the request is submitted, or its reply may pass by. ``on_reply`` and
        ``on_token`` are called in the reading thread, and return at once."""
        with self._lock:
            self._expected[request_id] = on_reply
            if on_token is not None:
                self._continued[request_id] = on_token

    def forget(self, request_id: str) -> None:
        """Stop expecting the id; its reply will be dropped."""
        with self._lock:
            self._expected.pop(request_id, None)
            self._continued.pop(request_id, None)

    def close(self) -> None:
        """Stop the thread and remove the stream. Raises RedisError when there is no server any more."""
        self._stop.set()
        try:
            self._redis.xadd(self.stream, {WAKE: b""})  # or the thread would wait until something comes
        finally:
            self._thread.join()
        self._redis.delete(self.stream, keys.generated(self.stream))

    def _run(self) -> None:
        positions = {name.encode(): _Position() for name in (self.stream, keys.generated(self.stream))}
        while not self._stop.is_set():
            try:
                after: Any = {name: position.entry for name, position in positions.items()}
                streams: Any = self._redis.xread(after, count=AT_ONCE, block=BLOCK_MS)
                for name, entries in streams or ():
                    for entry, fields in entries:
                        self._deliver_entry(fields)
                        positions[name].move_to(entry, fields)
                for name, position in positions.items():
                    if position.is_to_trim or (position.read and not streams):
                        self._redis.xtrim(name, minid=position.next, approximate=False)
                        position.read = position.read_bytes = 0
            except RedisError as error:
                log.warning("waiting for replies: %s", error)
                self._stop.wait(0.5)

    def _deliver_entry(self, fields: dict[bytes, bytes]) -> None:
        """Hand over what an entry holds. An error of who gets it is logged: others wait for theirs."""
        try:
            if (token := fields.get(keys.GENERATED_FIELD.encode())) is not None:
                self._deliver_token(fields.get(keys.REQUEST_FIELD.encode(), b"").decode(), token)
            elif WAKE not in fields:
                self._deliver(fields.get(keys.FIELD.encode(), b""))
        except Exception:
            log.exception("a reply could not be handed over")

    def _deliver_token(self, request_id: str, payload: bytes) -> None:
        """Hand over a token. One that cannot be read is missed, and read from the completion itself."""
        with self._lock:
            on_token = self._continued.get(request_id)
        if on_token is None:
            return
        try:
            on_token(GeneratedToken.decode(payload))
        except MessageError as error:
            log.error("unreadable token of %s: %s", request_id, error, extra={"request_id": request_id})

    def _deliver(self, payload: bytes) -> None:
        try:
            reply = InferReply.decode(payload)
        except MessageError as error:
            own = {"request_id": error.request_id}
            log.error("unreadable reply %s: %s", error.request_id, error, extra=own)
            message = "the reply could not be read"
            reply = InferReply.failure(error.request_id, NO_MODEL, "inference_failed", message)
        with self._lock:
            on_reply = self._expected.get(reply.id)
        if on_reply is not None:
            on_reply(reply)


class _Position:
    """How far a stream was read, and how much of what was read is still in it."""

    __slots__ = ("entry", "read", "read_bytes")

    def __init__(self) -> None:
        self.entry = b"0-0"
        self.read = self.read_bytes = 0

    @property
    def next(self) -> str:
        """The least id behind what was read."""
        time, _, number = self.entry.decode().partition("-")
        return f"{time}-{int(number) + 1}"

    @property
    def is_to_trim(self) -> bool:
        """Whether so much was read that it must be removed, although more comes."""
        return self.read >= READ_KEPT or self.read_bytes >= READ_BYTES_KEPT

    def move_to(self, entry: bytes, fields: dict[bytes, bytes]) -> None:
        self.entry = entry
        self.read += 1
        self.read_bytes += sum(map(len, fields.values()))


class _Waiter:
    __slots__ = ("arrived", "reply")

    def __init__(self) -> None:
        self.arrived = threading.Event()
        self.reply: InferReply | None = None

    def __call__(self, reply: InferReply) -> None:
        self.reply = reply
        self.arrived.set()


class How(TypedDict):
    """Options of a request: ``root`` is the digest of the model's root, ``seconds`` are those that the
    caller waits, ``call`` is the name to cancel it by; the rest as in `InferRequest`."""

    root: str
    seconds: float
    call: NotRequired[str | None]
    level: NotRequired[Level]
    dispatcher: NotRequired[Dispatcher | None]
    explain: NotRequired[bool]
    embed: NotRequired[bool]
    generate: NotRequired[SamplingParams | None]


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
        sequences: tuple[TokenSequence, ...],
        **how: Unpack[How],
    ) -> InferReply:
        """The answer to ``sequences``, which the worker drops with ``deadline_exceeded`` after the seconds
        that ``how`` says.

        Raises QueueFull and CallOutstanding; NoReply when there is no answer at all; redis errors when there
        is no server.
        """
        request, seconds = self.request(model, sequences, **how), how["seconds"]
        waiter = _Waiter()
        with self.expecting(request, waiter):
            self.queue.submit(request)
            waiter.arrived.wait(seconds + GRACE_S)
        if waiter.reply is None:
            raise NoReply(f"no answer to {request.id} within {seconds:g} s")
        return waiter.reply

    def request(
        self, model: ModelRef, sequences: tuple[TokenSequence, ...], **how: Unpack[How]
    ) -> InferRequest:
        """The request that ``ask`` submits, for callers that wait in another way."""
        now, call, generate = time.time(), how.get("call"), how.get("generate")
        return InferRequest(
            id=f"{call}{CALL_END}{uuid.uuid4().hex[:12]}" if call else uuid.uuid4().hex,
            tenant=model.tenant,
            hplm=model.hplm,
            version=model.version,
            digest=model.digest,
            root=how["root"],
            sequences=sequences,
            deadline=now + how["seconds"],
            enqueued_at=now,
            reply_to=keys.generated(self._reader.stream) if generate else self._reader.stream,
            level=how.get("level", Level.TABLE),
            dispatcher=how.get("dispatcher"),
            explain=how.get("explain", False),
            embed=how.get("embed", False),
            generate=generate,
        )

    @contextmanager
    def completing(self, request: InferRequest) -> Iterator[TokenFeed]:
        """Submit a request with ``generate``; in here its events come. Leaving before the last event
        cancels it. Raises QueueFull and CallOutstanding, and redis errors when there is no server."""
        feed = TokenFeed(CompletionReader(self.redis, request.id))
        with self.expecting(request, feed.put, feed.put):
            self.queue.submit(request)
            try:
                yield feed
            finally:
                if not feed.ended:
                    self.queue.cancel(request.tenant, request.call, request=request.id)

    def expect(self, request: InferRequest, on_reply: OnReply) -> None:
        """Hand over the reply to the request, which is submitted after this, until `forget`."""
        self._reader.expect(request.id, on_reply)

    def forget(self, request_id: str) -> None:
        """Stop expecting the reply to the request."""
        self._reader.forget(request_id)

    @contextmanager
    def expecting(
        self, request: InferRequest, on_reply: OnReply, on_token: OnToken | None = None
    ) -> Iterator[None]:
        """In here a reply to the request, which is submitted in here too, is handed over as it comes; the
        tokens of a completion, too."""
        self._reader.expect(request.id, on_reply, on_token)
        try:
            yield
        finally:
            self._reader.forget(request.id)

    def close(self) -> None:
        self._reader.close()
        self.redis.close()
