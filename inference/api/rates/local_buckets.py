"""What this process may still spend of limits by the minute.

The buckets are shared by all processes (`inference.queueing.token_buckets`). A process takes a little more
out of one than it needs, at most a two-hundredth of what flows in a minute, and spends that without asking;
what it did not spend it brings along when it asks again. So nobody gets more than their limit, and of many
requests a second few cost a question. Where Valkey is away there are no limits: answering matters more.
"""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from redis import Redis
from redis.exceptions import RedisError

from inference.queueing.token_buckets import Grant, TakeRequest, take

log = logging.getLogger(__name__)

IN_HAND = 200
HEARD_FOR_S = 30.0
"""What is left of a bucket is asked anew then, since other processes take from it too."""
AWAY_FOR_S = 1.0
"""For so long nobody asks again who had no answer: not each request is to wait."""
MOST_SHARES = 50_000


@dataclass(frozen=True, slots=True)
class Limit:
    """So many a minute: of ``what``, for ``whom``. ``bucket`` names where it is counted."""

    bucket: str
    whom: str
    what: str
    per_minute: int


@dataclass(frozen=True, slots=True)
class BucketState:
    """How much of a limit is left, and in how many seconds it would be untouched again."""

    limit: Limit
    left: int
    reset_s: float


class LimitExceeded(Exception):
    """There is not enough left of a limit; in ``wait_s`` seconds there will be."""

    def __init__(self, limit: Limit, wait_s: float) -> None:
        super().__init__(f"{limit.bucket}: wait {wait_s:.3g} s")
        self.limit, self.wait_s = limit, wait_s


@dataclass(slots=True)
class LocalBucket:
    """What is in hand of one bucket (less than nothing: overdrawn), and what was left in it when asked."""

    limit: Limit
    hand: float = 0.0
    left: float = 0.0
    heard_at: float = float("-inf")

    def in_sight(self, now: float) -> float:
        """In hand and in the bucket, as far as this process knows."""
        since = min(now - self.heard_at, 60.0)
        return min(self.limit.per_minute, self.hand + self.left + since * self.limit.per_minute / 60)


class LocalBuckets:
    """Those of one process, for any number of threads; ``clock`` tells seconds."""

    def __init__(self, redis: Redis, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._redis, self._clock = redis, clock
        self._lock = threading.Lock()
        self._shares: OrderedDict[str, LocalBucket] = OrderedDict()
        self._away_until = float("-inf")

    def spend(self, limits: Sequence[Limit], amount: int, *, next_to: Sequence[Limit] = ()) -> bool:
        """Take so much of each limit, or of none; whether it was counted. Raises LimitExceeded.

        More than a limit allows in a minute is taken when all of that is there, and the rest is owed. Where
        Valkey has to be asked, some of the limits ``next_to`` these is taken in hand by the way.
        """
        if self.spend_in_hand(limits, amount):
            return True
        with self._lock:
            now = self._clock()
            shares = [self._share(limit) for limit in limits]
            short = [share for share in shares if self._is_short(share, amount, now)]
            if now < self._away_until:
                return False
            for share in short:
                _refuse_early(share, amount, now)
            also = [share for share in map(self._share, next_to) if self._is_short(share, 1, now)]
            wishes = [_wish(share, amount) for share in short] + [_wish(share, 0) for share in also]
        grants = self._ask(wishes)
        with self._lock:
            if grants is None:
                _give_back([*short, *also], wishes)
                return False
            now = self._clock()
            _receive([*short, *also], grants, now)
            for share, grant in zip(short, grants, strict=False):
                if not grant.taken:
                    raise LimitExceeded(share.limit, _wait_s(share, amount, now))
            _subtract(shares, amount)
        self._settle(limits)
        return True

    def spend_in_hand(self, limits: Sequence[Limit], amount: int) -> bool:
        """``spend``, where nobody has to be asked or told; otherwise False, and nothing is taken."""
        with self._lock:
            now = self._clock()
            shares = [self._share(limit) for limit in limits]
            if any(amount > share.limit.per_minute or self._is_short(share, amount, now) for share in shares):
                return False
            _subtract(shares, amount)
            return True

    def refund(self, limits: Sequence[Limit], amount: int) -> None:
        """What ``spend`` took is free again. Nobody is asked, but for what was more than a minute's worth:
        its debt is in the bucket."""
        with self._lock:
            for share in map(self._share, limits):
                share.hand += amount
        self._settle(limits)

    def _settle(self, limits: Sequence[Limit]) -> None:
        """Tell what is owed of these, or is more in hand than a minute's worth."""
        with self._lock:
            shares = [self._share(limit) for limit in limits]
            uneven = [share for share in shares if not 0 <= share.hand <= share.limit.per_minute]
            if not uneven or self._clock() < self._away_until:
                return
            wishes = [_wish(share, 0) for share in uneven]
        grants = self._ask(wishes)
        with self._lock:
            if grants is None:
                _give_back(uneven, wishes)
            else:
                _receive(uneven, grants, self._clock())

    def standing(self, limit: Limit) -> BucketState:
        """As far as this process knows, without asking."""
        with self._lock:
            share = self._share(limit)
            if share.heard_at == float("-inf"):
                return BucketState(limit, limit.per_minute, 0.0)
            left = share.in_sight(self._clock())
        return BucketState(limit, max(0, int(left)), 60 * (limit.per_minute - left) / limit.per_minute)

    def _share(self, limit: Limit) -> LocalBucket:
        share = self._shares.get(limit.bucket)
        if share is None:
            share = self._shares[limit.bucket] = LocalBucket(limit)
            if len(self._shares) > MOST_SHARES:
                self._shares.popitem(last=False)
        elif share.limit != limit:
            share.limit, share.heard_at = limit, float("-inf")
        self._shares.move_to_end(limit.bucket)
        return share

    def _is_short(self, share: LocalBucket, amount: int, now: float) -> bool:
        return share.hand < _least(share, amount) or now - share.heard_at > HEARD_FOR_S

    def _ask(self, wishes: Sequence[TakeRequest]) -> list[Grant] | None:
        """None where nobody answers."""
        try:
            grants = take(self._redis, wishes) if wishes else []
        except RedisError as error:
            if self._away_until == float("-inf"):
                log.error("Rate limits are not counted until Valkey answers again: %s", error)
            self._away_until = self._clock() + AWAY_FOR_S
            return None
        if self._away_until != float("-inf"):
            self._away_until = float("-inf")
            log.warning("Rate limits are counted again")
        return grants


def _least(share: LocalBucket, amount: int) -> int:
    return min(amount, share.limit.per_minute)


def _wish(share: LocalBucket, amount: int) -> TakeRequest:
    """All that is in hand goes back with it; meanwhile others who need some ask for themselves."""
    full, least = share.limit.per_minute, _least(share, amount)
    back, share.hand = share.hand, 0.0
    return TakeRequest(share.limit.bucket, full, back, least, max(least, full // IN_HAND))


def _receive(shares: Sequence[LocalBucket], grants: Sequence[Grant], now: float) -> None:
    for share, grant in zip(shares, grants, strict=True):
        share.hand, share.left, share.heard_at = share.hand + grant.taken, grant.left, now


def _subtract(shares: Sequence[LocalBucket], amount: int) -> None:
    for share in shares:
        share.hand -= amount


def _give_back(shares: Sequence[LocalBucket], wishes: Sequence[TakeRequest]) -> None:
    for share, wish in zip(shares, wishes, strict=True):
        share.hand += wish.back


def _refuse_early(share: LocalBucket, amount: int, now: float) -> None:
    """Whoever goes on asking after a refusal is refused without a question: others can only have taken."""
    known = now - share.heard_at <= HEARD_FOR_S
    if known and share.in_sight(now) < _least(share, amount):
        raise LimitExceeded(share.limit, _wait_s(share, amount, now))


def _wait_s(share: LocalBucket, amount: int, now: float) -> float:
    missing = _least(share, amount) - share.in_sight(now)
    return max(0.0, 60 * missing / share.limit.per_minute)
