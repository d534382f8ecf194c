"""Holding requests and their tokens to limits; what is beyond them is a typed error."""

import math
import os
import threading
from collections.abc import Sequence

from django.conf import settings

from inference.api.rates.limits import Limit
from inference.api.rates.local_buckets import LimitExceeded, LocalBuckets
from inference.queueing.token_buckets import connect_briefly

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
