"""Requests, replies and workers as the queue's tests need them."""

import time
from typing import Any

from redis import Redis

from inference.queueing import keys
from inference.queueing.messages import InferInput, InferReply, InferRequest
from inference.queueing.transport import RequestConsumer

STREAM = keys.replies("test")


def a_request(request_id: str, tenant: str = "acme") -> InferRequest:
    now = time.time()
    return InferRequest(
        id=request_id,
        tenant=tenant,
        hplm="mood",
        version=1,
        digest="d" * 64,
        inputs=(InferInput("hello"),),
        deadline=now + 30,
        enqueued_at=now,
        reply_to=STREAM,
    )


def a_reply(request: InferRequest, label: str = "good") -> InferReply:
    return InferReply(id=request.id, ok=True, model=request.model, results=({"label": label},))


def a_worker(redis: Redis, name: str) -> RequestConsumer:
    """A consumer with a heartbeat; ``crash`` takes the heartbeat away."""
    redis.set(keys.worker(name), b"{}")
    consumer = RequestConsumer(redis, name)
    consumer.open()
    return consumer


def crash(redis: Redis, name: str) -> None:
    redis.delete(keys.worker(name))


def replies_in(redis: Redis) -> list[InferReply]:
    """Everything that was ever sent to ``STREAM``."""
    entries: Any = redis.xrange(STREAM)
    return [InferReply.from_json(fields[b"message"]) for _, fields in entries]
