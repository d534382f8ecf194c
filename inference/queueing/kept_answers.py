"""The answers to calls with an idempotency key, for as long and as many as there is room for."""

import uuid
from dataclasses import dataclass
from typing import Any

from redis import Redis

from inference.queueing import keys, scripts
from inference.queueing.scripts import Argument, run

KEPT_S = 600
MOST_BYTES_EACH = 1024**2
MOST_BYTES = 64 * 1024**2
"""Of all answers together; the oldest make room."""
MOST_BYTES_OF_TENANT = 8 * 1024**2
"""Of a tenant's answers; its own oldest make room, so that a tenant with many leaves others theirs."""


class InFlight(Exception):
    """A call with this key has no answer yet."""


class OtherBody(Exception):
    """The key was used for a call with another body."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The lease on answering a call with this key, until its seconds are over or it is released."""

    key: str
    owner: str


class KeptAnswers:
    """Answers by tenant and idempotency key."""

    def __init__(
        self, redis: Redis, *, most_bytes: int = MOST_BYTES, most_bytes_of_tenant: int = MOST_BYTES_OF_TENANT
    ) -> None:
        self._redis = redis
        self._most_bytes = most_bytes
        self._most_bytes_of_tenant = most_bytes_of_tenant

    def begin(self, tenant: str, key: str, *, body: str, seconds: float) -> Turn | bytes:
        """The answer that was given, or a lease on giving one. ``body`` identifies the body of the call. A
        lease expires after ``seconds``. Raises InFlight and OtherBody."""
        turn = Turn(keys.kept(tenant, key), uuid.uuid4().hex)
        given: list[Argument] = [body, turn.owner, max(1, int(1000 * seconds))]
        found: Any = run(self._redis, scripts.BEGIN, [turn.key], given)
        before, owner, answer = found
        if before.decode() != body:
            raise OtherBody
        if answer is not None:
            return bytes(answer)
        if owner.decode() != turn.owner:
            raise InFlight
        return turn

    def keep(self, turn: Turn, answer: bytes) -> None:
        """Keep the answer for KEPT_S, unless the lease has expired or the answer has more than
        MOST_BYTES_EACH: then the key is free again."""
        if len(answer) > MOST_BYTES_EACH:
            self.release(turn)
            return
        given: list[Argument] = [turn.owner, answer, int(1000 * KEPT_S), self._most_bytes]
        given += [self._most_bytes_of_tenant, keys.KEPT_PREFIX, keys.KEPT_OF_PREFIX]
        touched = [turn.key, keys.KEPT, keys.KEPT_BYTES, keys.KEPT_BYTES_OF]
        run(self._redis, scripts.KEEP, touched, given)

    def release(self, turn: Turn) -> None:
        """Nothing was answered: the next call with the key is as good as the first."""
        run(self._redis, scripts.RELEASE, [turn.key], [turn.owner])

    def forget(self, tenant: str) -> None:
        """Delete the answers of a tenant. Keys without an answer go by themselves; they hold no text."""
        touched = [keys.kept_of(tenant), keys.KEPT, keys.KEPT_BYTES, keys.KEPT_BYTES_OF]
        run(self._redis, scripts.FORGET, touched, [tenant])
