"""Holding requests and their tokens to limits by the minute; what is beyond them is a typed error."""

import math
import os
import threading
from collections.abc import Sequence

from django.conf import settings

from inference.api.rates.limits import Limit, LimitExceeded, LocalBuckets
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
    ``rate_limited`` if one has too little left. Those ``next_to`` these are about to be spent, too."""
    if not limits:
        return False
    try:
        return local_buckets().spend(limits, amount, next_to=next_to)
    except LimitExceeded as refusal:
        limit, wait = refusal.limit, max(1, math.ceil(refusal.wait_s))
        raise HmiError(
            ErrorCode.RATE_LIMITED,
            f"Rate limit exceeded: {limit.per_minute:,} {limit.what} per minute for this {limit.whom}."
            f" Try again in {wait} s.",
            details={"of": limit.whom, "limit": limit.what, "per_minute": limit.per_minute, "asked": amount},
            retry_after=wait,
        ) from None


def refund(limits: Sequence[Limit], amount: int) -> None:
    """What was counted of a request that came to nothing is free again."""
    local_buckets().refund(limits, amount)


def charge(limits: Sequence[Limit], amount: int) -> None:
    """Count what was generated, which nobody knew before. Beyond a limit it is owed, and further requests are
    refused until that is paid."""
    local_buckets().charge(limits, amount)
