"""What may still be spent of limits, shared by all processes: buckets that fill steadily, or not at all."""

from collections.abc import Sequence
from dataclasses import dataclass

from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from inference.queueing import keys
from inference.queueing.connection import MAX_CONNECTIONS
from inference.queueing.scripts import TAKE, Argument, run

PATIENCE_S = 0.25
"""Whoever waits for a limit waits for a request: no longer than this."""


@dataclass(frozen=True, slots=True)
class TakeRequest:
    """A request to one bucket, which holds ``full`` and into which so much flows ``per_second``. It is
    forgotten ``forget_after_s`` after the last change; 0: when it is full again."""

    bucket: str
    full: int
    per_second: float
    back: float
    least: int
    most: int
    forget_after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Grant:
    """What was taken out of a bucket, and what is left in it: less than nothing where somebody overdrew."""

    taken: float
    left: float


def connect_briefly(url: str) -> Redis:
    """A client that gives up at once: without an answer the request goes on as if there were no limits."""
    return Redis.from_url(
        url,
        retry=Retry(NoBackoff(), 0),
        socket_timeout=PATIENCE_S,
        socket_connect_timeout=PATIENCE_S,
        max_connections=MAX_CONNECTIONS,
    )


def take(redis: Redis, wishes: Sequence[TakeRequest]) -> list[Grant]:
    """What each wish is granted, in one step. Raises RedisError."""
    given: list[Argument] = []
    for wish in wishes:
        given += [wish.full, repr(wish.per_second), repr(wish.back), wish.least, wish.most]
        given += [int(1000 * wish.forget_after_s)]
    answer = run(redis, TAKE, [keys.allowance(wish.bucket) for wish in wishes], given)
    return [Grant(float(taken), float(left)) for taken, left in zip(answer[::2], answer[1::2], strict=True)]
