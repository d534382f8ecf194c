"""Tokens of completions on their way from a worker to the caller, each once and in order.

A completion is a stream of its own: token ``i`` is the entry ``i + 1``, and the reply is the entry behind the
last token. The server takes each number once, and only from the worker that holds the request. So a second
worker goes on where the first stopped, and a reader can go on behind the last token it saw. A copy of each
entry goes to the process that asked, which waits for all its completions at one stream; if the server drops
copies, the process reads the completion itself.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from redis import Redis
from redis.exceptions import RedisError

from inference.generation.requests import FinishReason, GenerationError, TokenEvent
from inference.queueing import keys, scripts
from inference.queueing.messages import GeneratedToken, InferReply, InferRequest
from inference.queueing.scripts import run
from inference.queueing.transport import CANCELLED, Address, answer_arguments

GENERATED = keys.GENERATED_FIELD.encode()
REPLY = keys.FIELD.encode()


class CompletionLost(Exception):
    """The server does not have the completion any more, not all of it, or never had it."""

    def __init__(self, request_id: str) -> None:
        super().__init__(f"the completion of the request {request_id} is not there")


@dataclass(frozen=True, slots=True)
class Continuation:
    """Tokens that follow those that a completion has, and the reply if they are the last."""

    address: Address
    request: InferRequest
    tokens: Sequence[GeneratedToken] = ()
    reply: InferReply | None = None


def append_all(redis: Redis, consumer: str, continuations: Iterable[Continuation]) -> list[bool | RedisError]:
    """Append the tokens and end what has its reply, in one round trip. Of each: whether the consumer still
    holds the request; False when it has its answer or was claimed by another consumer, and nothing was
    written; or why it could not be written: a ResponseError that begins with GAP where tokens are missing in
    between, which no repetition helps against. Raises RedisError when there is no server.
    """
    with redis.pipeline(transaction=False) as pipeline:
        for each in continuations:
            request, tokens = each.request, each.tokens
            touched, given = answer_arguments(
                each.address, request.tenant, request.reply_to, request.id, each.reply
            )
            first = tokens[0].index if tokens else 0
            given += [consumer, keys.GENERATED_FIELD, keys.REQUEST_FIELD, first]
            given += [token.encode() for token in tokens]
            run(pipeline, scripts.APPEND, touched, given)
        said = pipeline.execute(raise_on_error=False)
    return [each if isinstance(each, RedisError) else bool(each) for each in said]


def tokens_sent(redis: Redis, request_id: str) -> tuple[int, ...]:
    """The tokens that the completion has: what a worker that claimed its request goes on from."""
    entries: Any = redis.xrange(keys.completion(request_id))
    return tuple(
        GeneratedToken.decode(fields[GENERATED]).token for _, fields in entries if GENERATED in fields
    )


class CompletionReader:
    """The events of one completion, behind the token ``after`` (-1: from the first one on). The last event,
    and no other, has a finish reason."""

    def __init__(self, redis: Redis, request_id: str, *, after: int = -1) -> None:
        self.request_id = request_id
        self.reply: InferReply | None = None
        """The one terminal answer, once it was read."""
        self._redis = redis
        self._next = after + 1
        self._busy_ms = 0.0

    @property
    def ended(self) -> bool:
        """Whether the last event was read."""
        return self.reply is not None

    @property
    def busy_ms(self) -> float:
        """For how long workers were busy with the tokens that were read; it needs no end."""
        return max(self._busy_ms, self.reply.timings_ms.busy if self.reply is not None else 0.0)

    def accept(self, item: GeneratedToken | InferReply) -> list[TokenEvent]:
        """The events that are new with what came from the process' stream, with those that were lost on that
        way. Raises CompletionLost if they are nowhere."""
        if self.ended or (isinstance(item, GeneratedToken) and item.index < self._next):
            return []
        if isinstance(item, GeneratedToken):
            is_due = item.index == self._next
        else:
            is_due = item.completion is None or item.completion.tokens <= self._next
        return [self._event(item)] if is_due else self.read()

    def read(self, block_ms: int = 0) -> list[TokenEvent]:
        """The events that the completion has by now, waiting at most ``block_ms`` (0: not at all) for the
        first. Raises CompletionLost."""
        if self.ended:
            return []
        key = keys.completion(self.request_id)
        streams: Any = self._redis.xread({key: f"{self._next}-1"}, block=block_ms or None)
        if not streams and not self._redis.exists(key):
            raise CompletionLost(self.request_id)
        return [self._event(_decoded(fields)) for _, entries in streams or () for _, fields in entries]

    def _event(self, item: GeneratedToken | InferReply) -> TokenEvent:
        """The event. Raises CompletionLost if tokens before it are missing."""
        index = self._next
        if isinstance(item, InferReply):
            if item.completion is not None and item.completion.tokens != index:
                raise CompletionLost(self.request_id)
            self.reply = item
            return _end(item, index)
        if item.index != index:
            raise CompletionLost(self.request_id)
        self._next += 1
        self._busy_ms += item.busy_ms
        return TokenEvent(
            request_id=self.request_id,
            index=index,
            token=item.token,
            logprob=item.logprob,
            alternatives=item.alternatives,
            number_format=item.number_format,
        )


class TokenFeed:
    """The events of a completion for a thread that waits for them. Without a worker nothing comes, not even
    an end: wait until the request's deadline at most."""

    def __init__(self, reader: CompletionReader) -> None:
        self._reader = reader
        self._arrived: SimpleQueue[GeneratedToken | InferReply] = SimpleQueue()

    @property
    def reply(self) -> InferReply | None:
        """The one terminal answer, once it arrived."""
        return self._reader.reply

    @property
    def ended(self) -> bool:
        """Whether the last event was given."""
        return self._reader.ended

    @property
    def busy_ms(self) -> float:
        """Milliseconds that workers spent on the events so far."""
        return self._reader.busy_ms

    def read(self) -> list[TokenEvent]:
        """The events that the completion has by now, also without copies in the process' stream. Raises
        CompletionLost if the server has lost it."""
        return self._reader.read()

    def put(self, item: GeneratedToken | InferReply) -> None:
        """Called in the thread that reads replies."""
        self._arrived.put(item)

    def next(self, seconds: float) -> list[TokenEvent]:
        """The events that came, waiting at most so long for the first; none after that time."""
        try:
            return self._reader.accept(self._arrived.get(timeout=seconds))
        except Empty:
            return []


def _decoded(fields: dict[bytes, bytes]) -> GeneratedToken | InferReply:
    """The token or reply of an entry. Raises MessageError."""
    return (
        GeneratedToken.decode(fields[GENERATED]) if GENERATED in fields else InferReply.decode(fields[REPLY])
    )


def _end(reply: InferReply, tokens: int) -> TokenEvent:
    """The last event of a completion of so many tokens."""
    error, reason = None, FinishReason.ERROR
    if reply.completion is not None:
        reason = reply.completion.finish_reason
    elif reply.error is not None and reply.error.code == CANCELLED:
        reason = FinishReason.CANCELLED
    elif reply.error is not None:
        error = GenerationError(reply.error.code, reply.error.message)
    else:
        error = GenerationError("inference_failed", "the reply does not say how the completion ended")
    return TokenEvent(request_id=reply.id, index=tokens, finish_reason=reason, error=error)
