"""The same call twice, one answer: what the header Idempotency-Key is for."""

import hashlib
import json
import logging
import re
from collections.abc import Callable
from typing import Any

from redis.exceptions import RedisError

from inference.api.client import gateway, reaching_the_queue
from inference.queueing.kept_answers import InFlight, KeptAnswers, OtherBody, Turn
from tenants.errors import ErrorCode, HmiError

log = logging.getLogger(__name__)

HEADER = "Idempotency-Key"
PATTERN = re.compile(r"[!-~]{1,128}")
RETRY_IN_FLIGHT_S = 1
Answer = dict[str, Any]


def check_key(value: str | None) -> str | None:
    """A key has 1 to 128 visible ASCII characters."""
    if value is None or PATTERN.fullmatch(value):
        return value
    message = "The key must have 1 to 128 visible ASCII characters."
    raise HmiError(ErrorCode.INVALID_FIELD, message, param=HEADER)


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
        message = "The key was used for a request with another body; each request needs its own."
        raise HmiError(ErrorCode.INVALID_FIELD, message, param=HEADER) from None
    except InFlight:
        message = "A request with this key has no answer yet."
        raise HmiError(ErrorCode.IN_FLIGHT, message, param=HEADER, retry_after=RETRY_IN_FLIGHT_S) from None


def _digest(body: object) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _try(step: Callable[..., None], *given: object) -> None:
    """What was answered is told, also when it cannot be kept."""
    try:
        step(*given)
    except RedisError as error:
        log.error("An answer could not be kept for its key: %s", error)
