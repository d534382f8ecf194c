"""Spends requests and tokens against limits (`spend`, `refund`, `charge`). What is beyond a limit is a typed
error. `LocalBuckets` has a little credit in this process.

The token buckets are shared by all processes (`inference.queueing.token_buckets`). A process takes a little
more than it needs, at most a two-hundredth of a limit, and spends this credit without a call of Valkey.
Unspent credit goes back with the next request to Valkey. So nobody exceeds a limit, and few requests cost a
round trip. While Valkey cannot be reached there are no limits: answering matters more.
"""

import logging
import math
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from django.conf import settings
from redis import Redis
from redis.exceptions import RedisError

from inference.api.rates.limits import Limit
from inference.queueing.token_buckets import Grant, TakeRequest, connect_briefly, take
from tenants.base.errors import ErrorCode, HmiError

log = logging.getLogger(__name__)

CREDIT_SHARE = 200
"""A process takes one in so many of a limit in advance."""
STALE_AFTER_S = 30.0
"""The level of a bucket is read again after this, since other processes take from it too."""
RETRY_AFTER_S = 1.0
"""After a failure Valkey is not asked for so long, so that not every request waits for it."""
MAX_BUCKETS = 50_000


@dataclass(frozen=True, slots=True)
class BucketState:
    """What is left of a limit, and the seconds until it is full again."""

    limit: Limit
    left: int
    reset_s: float


class LimitExceeded(Exception):
    """Too little of a limit is ``left``; in ``wait_s`` seconds there will be enough."""

    def __init__(self, limit: Limit, left: float, wait_s: float) -> None:
        super().__init__(f"{limit.bucket}: wait {wait_s:.3g} s")
        self.limit, self.left, self.wait_s = limit, left, wait_s


@dataclass(slots=True)
class LocalBucket:
    """The credit from one shared bucket (negative: overdrawn), and what was left in it at `updated_at`."""

    limit: Limit
    credit: float = 0.0
    left: float = 0.0
    updated_at: float = float("-inf")

    def available(self, now: float) -> float:
        """Credit and what is in the shared bucket, as far as this process knows."""
        since = min(now - self.updated_at, 60.0)
        return min(self.limit.full, self.credit + self.left + since * self.limit.per_second)


class LocalBuckets:
    """The buckets of one process, for any number of threads. ``clock`` returns seconds."""

    def __init__(self, redis: Redis, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._redis, self._clock = redis, clock
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, LocalBucket] = OrderedDict()
        self._unreachable_until = float("-inf")

    def spend(self, limits: Sequence[Limit], amount: int, *, next_to: Sequence[Limit] = ()) -> bool:
        """Take so much of each limit, or of none; whether it was counted. Raises LimitExceeded.

        More than a limit allows in a minute is taken when all of that is there, and the rest is owed. Where
        Valkey has to be asked, credit for the limits ``next_to`` these is taken with it.
        """
        if self._spend_locally(limits, amount):
            return True
        with self._lock:
            now = self._clock()
            buckets = [self._bucket(limit) for limit in limits]
            short = [bucket for bucket in buckets if self._is_short(bucket, amount, now)]
            if now < self._unreachable_until:
                return False
            for bucket in short:
                _refuse_early(bucket, amount, now)
            also = [bucket for bucket in map(self._bucket, next_to) if self._is_short(bucket, 1, now)]
            requests = [_request(bucket, amount, now) for bucket in short] + [
                _request(bucket, 0, now) for bucket in also
            ]
        grants = self._ask(requests)
        with self._lock:
            if grants is None:
                _give_back([*short, *also], requests)
                return False
            now = self._clock()
            _receive([*short, *also], grants, now)
            for bucket, grant in zip(short, grants, strict=False):
                if not grant.taken:
                    raise _exceeded(bucket, amount, now)
            _subtract(buckets, amount)
        self._settle(limits)
        return True

    def _spend_locally(self, limits: Sequence[Limit], amount: int) -> bool:
        """``spend``, if this process has enough credit; otherwise False, and nothing is taken."""
        with self._lock:
            now = self._clock()
            buckets = [self._bucket(limit) for limit in limits]
            if any(amount > bucket.limit.amount or self._is_short(bucket, amount, now) for bucket in buckets):
                return False
            _subtract(buckets, amount)
            return True

    def refund(self, limits: Sequence[Limit], amount: int) -> None:
        """What ``spend`` took is free again. Nobody is asked, but for what was more than a minute's worth:
        its debt is in the bucket."""
        with self._lock:
            for bucket in map(self._bucket, limits):
                bucket.credit += amount
        self._settle(limits)

    def charge(self, limits: Sequence[Limit], amount: int) -> None:
        """Take so much of each limit, whether or not it is there: what is missing is owed, and ``spend``
        refuses until it is paid."""
        with self._lock:
            _subtract([self._bucket(limit) for limit in limits], amount)
        self._settle(limits)

    def _settle(self, limits: Sequence[Limit]) -> None:
        """Bring debt, and credit beyond a minute's worth, to the shared buckets."""
        with self._lock:
            buckets = [self._bucket(limit) for limit in limits]
            uneven = [bucket for bucket in buckets if not 0 <= bucket.credit <= bucket.limit.amount]
            now = self._clock()
            if not uneven or now < self._unreachable_until:
                return
            requests = [_request(bucket, 0, now) for bucket in uneven]
        grants = self._ask(requests)
        with self._lock:
            if grants is None:
                _give_back(uneven, requests)
            else:
                _receive(uneven, grants, self._clock())

    def state(self, limit: Limit) -> BucketState:
        """The state of a limit as far as this process knows, without a call of Valkey."""
        with self._lock:
            bucket = self._bucket(limit)
            if bucket.updated_at == float("-inf"):
                return BucketState(limit, max(0, limit.full), 0.0)
            left = bucket.available(self._clock())
        return BucketState(limit, max(0, int(left)), limit.wait_s(limit.full - left))

    def _bucket(self, limit: Limit) -> LocalBucket:
        bucket = self._buckets.get(limit.bucket)
        if bucket is None:
            bucket = self._buckets[limit.bucket] = LocalBucket(limit)
            if len(self._buckets) > MAX_BUCKETS:
                self._buckets.popitem(last=False)
        elif bucket.limit != limit:
            bucket.updated_at = float("-inf")
        bucket.limit = limit
        self._buckets.move_to_end(limit.bucket)
        return bucket

    def _is_short(self, bucket: LocalBucket, amount: int, now: float) -> bool:
        return bucket.credit < bucket.limit.least(amount) or now - bucket.updated_at > STALE_AFTER_S

    def _ask(self, requests: Sequence[TakeRequest]) -> list[Grant] | None:
        """None where nobody answers."""
        try:
            grants = take(self._redis, requests) if requests else []
        except RedisError as error:
            if self._unreachable_until == float("-inf"):
                log.error("Rate limits are not counted until Valkey answers again: %s", error)
            self._unreachable_until = self._clock() + RETRY_AFTER_S
            return None
        if self._unreachable_until != float("-inf"):
            self._unreachable_until = float("-inf")
            log.warning("Rate limits are counted again")
        return grants


def _request(bucket: LocalBucket, amount: int, now: float) -> TakeRequest:
    """All credit goes back with it; meanwhile other threads that need some ask for themselves."""
    limit, least = bucket.limit, bucket.limit.least(amount)
    if limit.forget_after_s and now - bucket.updated_at > limit.forget_after_s:
        bucket.credit = min(0.0, bucket.credit)  # the bucket has forgotten that it was taken
    back, bucket.credit = bucket.credit, 0.0
    most = max(least, limit.amount // CREDIT_SHARE)
    return TakeRequest(limit.bucket, limit.full, limit.per_second, back, least, most, limit.forget_after_s)


def _receive(buckets: Sequence[LocalBucket], grants: Sequence[Grant], now: float) -> None:
    for bucket, grant in zip(buckets, grants, strict=True):
        bucket.credit, bucket.left, bucket.updated_at = bucket.credit + grant.taken, grant.left, now


def _subtract(buckets: Sequence[LocalBucket], amount: int) -> None:
    for bucket in buckets:
        bucket.credit -= amount


def _give_back(buckets: Sequence[LocalBucket], requests: Sequence[TakeRequest]) -> None:
    for bucket, request in zip(buckets, requests, strict=True):
        bucket.credit += request.back


def _refuse_early(bucket: LocalBucket, amount: int, now: float) -> None:
    """Refuse at once what was refused a moment ago: other processes can only have taken more."""
    known = now - bucket.updated_at <= STALE_AFTER_S
    if known and bucket.available(now) < bucket.limit.least(amount):
        raise _exceeded(bucket, amount, now)


def _exceeded(bucket: LocalBucket, amount: int, now: float) -> LimitExceeded:
    left, limit = bucket.available(now), bucket.limit
    return LimitExceeded(limit, left, limit.wait_s(limit.least(amount) - left))


_lock = threading.Lock()
_local_buckets: LocalBuckets | None = None
_made_for: tuple[int, str] | None = None


def local_buckets() -> LocalBuckets:
    """The buckets of this process, made on first use: connections do not survive the fork of a web server."""
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
    """Give back what was counted of a request that was not computed."""
    local_buckets().refund(limits, amount)


def charge(limits: Sequence[Limit], amount: int) -> None:
    """Count generated tokens, whose number was not known before. An overdrawn bucket refuses requests until
    it is refilled."""
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
    exhausted = [limit for limit in limits if local_buckets().state(limit).left < 1]
    if spend(exhausted):  # there was something after all
        refund(exhausted, 1)
    try:
        yield
    except TooLongRefusal as refusal:
        charge(limits, refusal.tokens_read)
        raise
