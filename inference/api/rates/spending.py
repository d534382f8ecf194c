"""Holding requests and their tokens to limits; what is beyond them is a typed error."""

import math
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from django.conf import settings

from inference.api.rates.limits import Limit
from inference.api.rates.local_buckets import LimitExceeded, LocalBuckets
from inference.queueing.token_buckets import connect_briefly
from tenants.base.errors import ErrorCode, HmiError

_lock = threading.Lock()
_local_buckets: LocalBuckets | None = None
_made_for: tuple[int, str] | None = None


def local_buckets() -> LocalBuckets:
    """This process's, made on first use: its connections would not survive the fork of a web server."""
    global _local_buckets, _made_for
    with _lock:
        wanted = os.getpid(), settings.REDIS_URL
        if _local_buckets is None or _made_for != wanted:
            _local_buckets, _made_for = LocalBuckets(connect_briefly(settings.REDIS_URL)), wanted
        return _local_buckets


def spend(limits: Sequence[Limit], amount: int = 1, *, next_to: Sequence[Limit] = ()) -> bool:
    """Count so much against all of these limits, and say whether it was counted: without Valkey nothing is.
    Raises ``rate_limited``, or ``quota_exceeded`` for a day's limit, if one has too little left. Those
    ``next_to`` these are about to be spent, too."""
    if not limits:
        return False
    try:
        return local_buckets().spend(limits, amount, next_to=next_to)
    except LimitExceeded as refusal:
        wait = max(1, math.ceil(refusal.wait_s))
        raise refusal.limit.exceeded(amount, left=refusal.left, wait_s=wait) from None


def refund(limits: Sequence[Limit], amount: int) -> None:
    """What was counted of a request that came to nothing is free again."""
    local_buckets().refund(limits, amount)


def charge(limits: Sequence[Limit], amount: int) -> None:
    """Count what was generated, which nobody knew before. Beyond a limit it is owed, and further requests are
    refused until that is paid."""
    local_buckets().charge(limits, amount)


class TooLongRefusal(HmiError):
    """Texts of a request that are refused for their length, after so many of their tokens were read."""

    def __init__(
        self, code: ErrorCode, message: str, *, param: str | None, tokens_read: int, **details: int
    ) -> None:
        super().__init__(code, message, param=param, details=details or None)
        self.tokens_read = tokens_read


@contextmanager
def reading_texts(limits: Sequence[Limit]) -> Iterator[None]:
    """Within the block texts are tokenised, before it is known how many tokens they have. ``rate_limited`` if
    nothing is left of a limit, as far as this process knows. What is read of a TooLongRefusal is charged."""
    exhausted = [limit for limit in limits if local_buckets().standing(limit).left < 1]
    if spend(exhausted):  # there was something after all
        refund(exhausted, 1)
    try:
        yield
    except TooLongRefusal as refusal:
        charge(limits, refusal.tokens_read)
        raise
