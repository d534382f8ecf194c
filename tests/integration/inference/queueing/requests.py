"""Requests, replies and workers as the queue's tests need them."""

import time
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace
from redis import Redis
from redis.exceptions import RedisError

from inference.generation.requests import FinishReason, SamplingParams
from inference.queueing import keys
from inference.queueing.consumer import Entry, RequestConsumer
from inference.queueing.messages import (
    CompletionEnd,
    GeneratedToken,
    InferReply,
    InferRequest,
    SequenceOutput,
    TokenSequence,
)
from inference.queueing.token_stream import Continuation
from inference.queueing.transport import RequestQueue

STREAM = keys.replies("test")
ROOT, OTHER_ROOT = "a" * 64, "b" * 64
REQUESTS = keys.requests(ROOT)


def a_request(request_id: str, tenant: str = "acme", *, root: str = ROOT) -> InferRequest:
    now = time.time()
    return InferRequest(
        id=request_id,
        tenant=tenant,
        hplm="mood",
        version=1,
        digest="d" * 64,
        root=root,
        sequences=(sequence_of("hello"),),
        deadline=now + 30,
        enqueued_at=now,
        reply_to=STREAM,
    )


def sequence_of(text: str) -> TokenSequence:
    """A sequence with a token for each character, which `text_of` reads."""
    return TokenSequence(text.encode("utf-32-le"))


def text_of(sequence: TokenSequence) -> str:
    return sequence.ids.decode("utf-32-le")


def a_reply(request: InferRequest, said: str = "good") -> InferReply:
    """A reply whose one output is no number, but these characters: the queue does not look at it."""
    return InferReply(id=request.id, ok=True, model=request.model, outputs=(SequenceOutput(said.encode()),))


def said_in(reply: InferReply) -> str:
    """What `a_reply` says."""
    return reply.outputs[0].values.decode()


def answered(worker: RequestConsumer, entry: Entry, reply: InferReply) -> bool:
    """Send one answer: whether it counts. Raises what kept it from being sent."""
    [said] = worker.answer_all([(entry, reply)])
    if isinstance(said, RedisError):
        raise said
    return said


def a_worker(redis: Redis, name: str, *roots: str) -> RequestConsumer:
    """A consumer for these roots, or ROOT, with a heartbeat; ``crash`` takes the heartbeat away."""
    redis.set(keys.worker(name), b"{}")
    consumer = RequestConsumer(redis, name)
    consumer.follow(roots or [ROOT])
    return consumer


def depth(redis: Redis) -> int:
    """How many requests are accepted and not answered."""
    return RequestQueue(redis, capacity=0).depth()


def crash(redis: Redis, name: str) -> None:
    redis.delete(keys.worker(name))


def replies_in(redis: Redis) -> list[InferReply]:
    """Everything that was ever sent to ``STREAM``."""
    entries: Any = redis.xrange(STREAM)
    return [InferReply.decode(fields[b"message"]) for _, fields in entries]


def a_completion_request(
    request_id: str, tenant: str = "acme", *, max_tokens: int = 100, root: str = ROOT
) -> InferRequest:
    """A prompt to be continued; its tokens go to the stream beside ``STREAM``."""
    request = a_request(request_id, tenant, root=root)
    return replace(request, generate=SamplingParams(max_tokens=max_tokens), reply_to=keys.generated(STREAM))


def tokens_from(first: int, *ids: int) -> list[GeneratedToken]:
    """The tokens with these ids, the first of this index."""
    return [GeneratedToken(index=first + at, token=token) for at, token in enumerate(ids)]


def end_of(request: InferRequest, tokens: int, reason: FinishReason = FinishReason.STOP) -> InferReply:
    """The reply to a completion of so many tokens."""
    return InferReply(id=request.id, ok=True, model=request.model, completion=CompletionEnd(reason, tokens))


def appended(
    worker: RequestConsumer, entry: Entry, tokens: Sequence[GeneratedToken], reply: InferReply | None = None
) -> bool:
    """Append to one completion: whether the worker held its request. Raises what kept it from that."""
    [said] = worker.append_all([Continuation(entry.address, entry.request, tokens, reply)])
    if isinstance(said, RedisError):
        raise said
    return said
