"""Which fragments of the traffic the tables lack: bounded counts in Redis, from which a domain's table grows.

For each table (the nearest of a chain) and tenant one sorted set: the ids of a fragment, and how often it was
missed, whoever else missed it or not. Nothing else of a text is kept, but ids can be read back as words. A
set that is full forgets what was missed least, and one that is not added to for a month goes. The more
tenants a table has, the less is kept of each: thousands of them must not fill the Redis of the queue.
"""

import logging
import struct
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from types import TracebackType
from typing import Any, Self, cast

from redis import Redis
from redis.exceptions import RedisError

from inference.periodic_thread import PeriodicThread
from inference.queueing import keys

log = logging.getLogger(__name__)

ID = struct.Struct(">i")
KEPT = 20_000
"""Fragments of a table and a tenant, at most."""
KEPT_OF_TABLE = 1_000_000
"""Of a table and all its tenants: about 100 MB."""
LIFE_S = 30 * 86_400
WAITING = 4096
AT_ONCE = 5_000
FLUSH_EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class MissedFragment:
    """A fragment that no table of the chain held: how often, over how many tenants."""

    ids: tuple[int, ...]
    count: int
    tenants: int


class MissCounter:
    """Collects what one process misses, and adds it to the counts in Redis from a thread while entered.

    ``add`` costs the caller an append. What cannot be sent, or waits when the buffer is full, is dropped:
    these are figures, not work.
    """

    def __init__(
        self,
        redis: Redis,
        *,
        every_s: float = FLUSH_EVERY_S,
        kept: int = KEPT,
        kept_of_table: int = KEPT_OF_TABLE,
    ) -> None:
        self._redis = redis
        self._kept = kept
        self._kept_of_table = kept_of_table
        self._waiting: deque[tuple[str, str, int, bytes]] = deque(maxlen=WAITING)
        self._thread = PeriodicThread("misses", self._try_flush, interval_s=every_s, at_end=self._try_flush)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.stop()

    def add(self, table: str, tenant: str, n: int, fragments: bytes) -> None:
        """Count fragments of ``n`` ids each, given one after the other as big-endian int32."""
        self._waiting.append((table, tenant, n, fragments))

    def flush(self) -> None:
        """Send what is waiting; raises redis errors, after which it is gone."""
        counts: dict[tuple[str, str], Counter[bytes]] = {}
        while self._waiting:
            table, tenant, n, fragments = self._waiting.popleft()
            counts.setdefault((table, tenant), Counter()).update(_cut(fragments, n))
        for (table, tenant), found in counts.items():
            self._send(table, tenant, found)

    def _send(self, table: str, tenant: str, counts: Counter[bytes]) -> None:
        key, tenants = keys.misses(table, tenant), keys.missing_tenants(table)
        self._redis.sadd(tenants, tenant)
        share = self._kept_of_table // max(1, self._redis.scard(tenants))
        kept = max(1, min(self._kept, share))
        members = iter(counts.items())
        while part := list(islice(members, AT_ONCE)):
            pipe = self._redis.pipeline(transaction=False)
            for member, count in part:
                pipe.zincrby(key, count, member)
            pipe.zremrangebyrank(key, 0, -kept - 1)
            pipe.expire(key, LIFE_S)
            pipe.sadd(tenants, tenant)
            pipe.expire(tenants, LIFE_S)
            pipe.execute()

    def _try_flush(self) -> None:
        try:
            self.flush()
        except RedisError as error:
            log.warning("missed fragments were not counted: %s", error)


def missed_fragments(
    redis: Redis,
    *,
    tables: Sequence[str],
    least_count: int,
    least_tenants: int,
    tenants: Collection[str] | None = None,
) -> list[MissedFragment]:
    """What the chains that begin with one of ``tables`` lacked: at least so often in all and for so many
    tenants, most missed first. With ``tenants``, only theirs counts, for instance of those who still agree to
    it."""
    totals: Counter[bytes] = Counter()
    spread: Counter[bytes] = Counter()
    for tenant, of_tenant in _tables_by_tenant(redis, tables, tenants).items():
        own: Counter[bytes] = Counter()
        for table in of_tenant:
            for member, count in _counts(redis, keys.misses(table, tenant)):
                own[member] += count
        totals.update(own)
        spread.update(own.keys())
    return [
        MissedFragment(tuple(value for (value,) in ID.iter_unpack(member)), count, spread[member])
        for member, count in totals.most_common()
        if count >= least_count and spread[member] >= least_tenants
    ]


def missed_clear(redis: Redis, *, tables: Sequence[str], tenants: Collection[str] | None = None) -> None:
    """Forget what was counted for ``tables``, for instance once they have grown; with ``tenants``, only what
    was counted of theirs."""
    for tenant, of_tenant in _tables_by_tenant(redis, tables, tenants).items():
        for table in of_tenant:
            _forget(redis, table, tenant)


def missed_keep_only(redis: Redis, tenants: Collection[str]) -> int:
    """Forget what was counted of everybody but these tenants; returns how many counts went.

    Looks at the keys themselves: what a worker adds late is found the next time.
    """
    gone = 0
    for key in redis.scan_iter(match=keys.misses("*", "*"), count=AT_ONCE):
        table, tenant = key.decode().rsplit(":", 2)[1:]
        if tenant not in tenants:
            _forget(redis, table, tenant)
            gone += 1
    return gone


def _cut(fragments: bytes, n: int) -> Iterator[bytes]:
    size = n * ID.size
    return (fragments[at : at + size] for at in range(0, len(fragments), size))


def _tables_by_tenant(
    redis: Redis, tables: Sequence[str], tenants: Collection[str] | None
) -> dict[str, list[str]]:
    """The tenants, by name, for whom there are counts of some of the tables, and which those are."""
    found: dict[str, list[str]] = {}
    for table in dict.fromkeys(tables):
        names = cast("set[bytes]", redis.smembers(keys.missing_tenants(table)))
        for tenant in (name.decode() for name in names):
            if tenants is None or tenant in tenants:
                found.setdefault(tenant, []).append(table)
    return dict(sorted(found.items()))


def _forget(redis: Redis, table: str, tenant: str) -> None:
    redis.delete(keys.misses(table, tenant))
    redis.srem(keys.missing_tenants(table), tenant)


def _counts(redis: Redis, key: str) -> Iterable[tuple[bytes, int]]:
    found: Any = redis.zrange(key, 0, -1, withscores=True)
    return ((member, int(count)) for member, count in found)
