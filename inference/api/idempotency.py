"""Idempotency keys of infer requests: a repeated request gets the kept answer of the first."""

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from redis.exceptions import RedisError

from inference.api.admission import gateway, reaching_the_queue
from inference.queueing.kept_answers import InFlight, KeptAnswers, OtherBody, Turn
from tenants.accounts.api.idempotency import key_in_use, key_reused

log = logging.getLogger(__name__)

Answer = Mapping[str, Any]
_ENCODER: Final = json.JSONEncoder(sort_keys=True, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class AnswerClaim:
    """The right to answer a request with an idempotency key, or the ``earlier`` answer to it. Without a key
    there is neither, and nothing is kept."""

    earlier: Answer | None = None
    turn: Turn | None = None

    @contextmanager
    def released_on_error(self) -> Iterator[None]:
        """After an error within the block, the next request with the key is the first again."""
        try:
            yield
        except BaseException:
            if self.turn is not None:
                _try(KeptAnswers(gateway().client.redis).release, self.turn)
            raise

    def keep(self, answer: Answer) -> None:
        """Keep the answer for the next request with the key."""
        if self.turn is not None:
            value = json.dumps(answer, separators=(",", ":")).encode()
            _try(KeptAnswers(gateway().client.redis).keep, self.turn, value)


NO_CLAIM: Final = AnswerClaim()
"""Of a request without an idempotency key."""


def claim_answer(*, tenant: str, key: str | None, body: object, seconds: float) -> AnswerClaim:
    """The claim of a request with the idempotency key and the JSON value `body`.

    When this process dies, the next request is the first again after `seconds`. Raises `in_flight` while an
    earlier request waits, `invalid_field` if its body was another.
    """
    if key is None:
        return NO_CLAIM
    try:
        with reaching_the_queue():
            kept = KeptAnswers(gateway().client.redis)
            turn = kept.begin(tenant, key, body=_digest(body), seconds=seconds)
    except OtherBody:
        raise key_reused() from None
    except InFlight:
        raise key_in_use() from None
    return AnswerClaim(earlier=json.loads(turn)) if isinstance(turn, bytes) else AnswerClaim(turn=turn)


def _digest(body: object) -> str:
    """The SHA-256 of a JSON value. It is encoded in pieces, between which other threads run."""
    digest = hashlib.sha256()
    for piece in _ENCODER.iterencode(body):
        digest.update(piece.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _try(step: Callable[..., None], *given: object) -> None:
    """Call ``step``; log a RedisError, so that the answer is sent even if it cannot be kept."""
    try:
        step(*given)
    except RedisError as error:
        log.error("An answer could not be kept for its key: %s", error)
