"""The same infer request twice, one answer: what the header Idempotency-Key is for."""

import hashlib
import json
import logging
from collections.abc import Callable
from typing import Any, Final

from redis.exceptions import RedisError

from inference.api.admission import gateway, reaching_the_queue
from inference.queueing.kept_answers import InFlight, KeptAnswers, OtherBody, Turn
from tenants.accounts.api.idempotency import key_in_use, key_reused

log = logging.getLogger(__name__)

Answer = dict[str, Any]
_ENCODER: Final = json.JSONEncoder(sort_keys=True, ensure_ascii=False)


def answered_once(
    ask: Callable[[], Answer], *, tenant: str, key: str | None, body: object, seconds: float
) -> Answer:
    """What `ask` says, or said to an earlier call with the same key and JSON value `body`.

    Only answers are kept: after an error, or when this process dies for `seconds`, the next call is the
    first again. Raises `in_flight` while an earlier call waits, `invalid_field` if its body was another.
    """
    if key is None:
        return ask()
    with reaching_the_queue():
        kept = KeptAnswers(gateway().client.redis)
        turn = _begin(kept, tenant, key, body, seconds)
    if isinstance(turn, bytes):
        earlier: Answer = json.loads(turn)
        return earlier
    try:
        answer = ask()
    except BaseException:
        _try(kept.release, turn)
        raise
    _try(kept.keep, turn, json.dumps(answer, separators=(",", ":")).encode())
    return answer


def _begin(kept: KeptAnswers, tenant: str, key: str, body: object, seconds: float) -> Turn | bytes:
    try:
        return kept.begin(tenant, key, body=_digest(body), seconds=seconds)
    except OtherBody:
        raise key_reused() from None
    except InFlight:
        raise key_in_use() from None


def _digest(body: object) -> str:
    """Of the JSON value. It is written in pieces, between which other threads run."""
    digest = hashlib.sha256()
    for piece in _ENCODER.iterencode(body):
        digest.update(piece.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _try(step: Callable[..., None], *given: object) -> None:
    """What was answered is told, also when it cannot be kept."""
    try:
        step(*given)
    except RedisError as error:
        log.error("An answer could not be kept for its key: %s", error)
