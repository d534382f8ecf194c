"""Counting what the tables lack: bounded, per tenant, and nothing but fragments and counts."""

import struct
import threading

import pytest
from redis import Redis

from inference.queueing import keys
from inference.queueing.connection import connect
from inference.queueing.misses import (
    MissCounter,
    MissedFragment,
    missed_clear,
    missed_fragments,
    missed_keep_only,
)
from tests.processes import wait_until
from tests.services import OwnValkey

TABLE = "ab" * 32


def packed(*fragments: tuple[int, ...]) -> bytes:
    return b"".join(struct.pack(f">{len(ids)}i", *ids) for ids in fragments)


def count(
    redis: Redis, tenant: str, *fragments: tuple[int, ...], kept: int = 100, kept_of_table: int = 1_000
) -> None:
    counter = MissCounter(redis, kept=kept, kept_of_table=kept_of_table)
    counter.add(TABLE, tenant, len(fragments[0]), packed(*fragments))
    counter.flush()


def read(redis: Redis, least_count: int = 1, least_tenants: int = 1) -> list[MissedFragment]:
    return missed_fragments(redis, tables=[TABLE], least_count=least_count, least_tenants=least_tenants)


def test_counts_add_up_over_tenants_and_flushes(redis: Redis) -> None:
    count(redis, "acme", (1, 2, 3), (1, 2, 3), (70_000, 5, 6))
    count(redis, "acme", (1, 2, 3))
    count(redis, "globex", (1, 2, 3))
    assert read(redis) == [MissedFragment((1, 2, 3), 4, 2), MissedFragment((70_000, 5, 6), 1, 1)]


def test_what_is_rare_or_one_tenant_s_alone_is_not_told(redis: Redis) -> None:
    for _ in range(9):
        count(redis, "acme", (1, 2, 3))
    count(redis, "globex", (4, 5, 6))
    count(redis, "acme", (4, 5, 6))
    assert read(redis, least_tenants=2) == [MissedFragment((4, 5, 6), 2, 2)]
    assert read(redis, least_count=3) == [MissedFragment((1, 2, 3), 9, 1)]
    assert read(redis, least_count=3, least_tenants=2) == []


def test_a_tenant_that_no_longer_agrees_is_left_out(redis: Redis) -> None:
    count(redis, "acme", (1, 2, 3))
    count(redis, "globex", (1, 2, 3))
    found = missed_fragments(redis, tables=[TABLE], least_count=1, least_tenants=1, tenants=["globex"])
    assert found == [MissedFragment((1, 2, 3), 1, 1)]


def test_tables_are_counted_apart_and_cleared_apart(redis: Redis) -> None:
    counter = MissCounter(redis)
    for table in ("one", "two"):
        counter.add(table, "acme", 2, packed((1, 2)))
    counter.flush()
    missed_clear(redis, tables=["one"])
    assert missed_fragments(redis, tables=["one"], least_count=1, least_tenants=1) == []
    assert len(missed_fragments(redis, tables=["two"], least_count=1, least_tenants=1)) == 1
    assert redis.keys("hmi:misses:one*") == []


def test_tables_that_are_read_together_add_up_and_a_tenant_counts_once(redis: Redis) -> None:
    counter = MissCounter(redis)
    for table, tenant in (("one", "acme"), ("two", "acme"), ("two", "globex")):
        counter.add(table, tenant, 2, packed((1, 2)))
    counter.flush()
    found = missed_fragments(redis, tables=["one", "two", "none"], least_count=3, least_tenants=2)
    assert found == [MissedFragment((1, 2), 3, 2)]
    assert missed_fragments(redis, tables=["one", "two"], least_count=1, least_tenants=3) == []


def test_one_tenant_s_counts_may_be_cleared_alone(redis: Redis) -> None:
    count(redis, "acme", (1, 2, 3))
    count(redis, "globex", (1, 2, 3))
    missed_clear(redis, tables=[TABLE], tenants=["acme"])
    assert read(redis) == [MissedFragment((1, 2, 3), 1, 1)]


def test_only_the_counts_of_some_tenants_are_kept(redis: Redis) -> None:
    for tenant in ("acme", "acme-two", "globex"):
        for table in ("one", "two"):
            counter = MissCounter(redis)
            counter.add(table, tenant, 2, packed((1, 2)))
            counter.flush()
    redis.set("hmi:workers:acme", b"{}")
    assert missed_keep_only(redis, {"acme"}) == 4
    left = {keys.misses(table, "acme") for table in ("one", "two")}
    left |= {keys.missing_tenants(table) for table in ("one", "two")}
    assert set(redis.keys("hmi:misses:*")) == {key.encode() for key in left}
    assert redis.smembers(keys.missing_tenants("one")) == {b"acme"}
    assert redis.exists("hmi:workers:acme")
    assert missed_keep_only(redis, set()) == 2
    assert redis.keys("hmi:misses:*") == []


def test_what_is_missed_least_is_forgotten_first(redis: Redis) -> None:
    for number in range(20):
        count(redis, "acme", *[(number, 0, 0)] * (number + 1), kept=5)
    assert [fragment.ids[0] for fragment in read(redis)] == [19, 18, 17, 16, 15]


def test_the_more_tenants_a_table_has_the_less_is_kept_of_each(redis: Redis) -> None:
    for tenant in range(10):
        ids = [(tenant, number, 0) for number in range(20) for _ in range(number + 1)]
        count(redis, f"tenant-{tenant}", *ids, kept_of_table=60)
    kept = [redis.zcard(keys.misses(TABLE, f"tenant-{tenant}")) for tenant in range(10)]
    assert (kept[0], kept[-1]) == (20, 6)
    count(redis, "tenant-0", (0, 19, 0), kept_of_table=60)
    assert redis.zcard(keys.misses(TABLE, "tenant-0")) == 6


def test_nothing_is_kept_but_fragments_and_counts_and_not_for_ever(redis: Redis) -> None:
    count(redis, "acme", (1, 2, 3))
    assert redis.zrange(keys.misses(TABLE, "acme"), 0, -1, withscores=True) == [(packed((1, 2, 3)), 1.0)]
    assert sorted(redis.keys("hmi:misses:*")) == sorted(
        key.encode() for key in (keys.misses(TABLE, "acme"), keys.missing_tenants(TABLE))
    )
    assert all(0 < redis.ttl(key) <= 31 * 86_400 for key in redis.keys("hmi:misses:*"))


def test_while_entered_it_sends_by_itself_and_the_rest_at_the_end(redis: Redis) -> None:
    with MissCounter(redis, every_s=0.01) as counter:
        counter.add(TABLE, "acme", 3, packed((1, 2, 3)))
        wait_until(lambda: len(read(redis)) == 1)
    with MissCounter(redis, every_s=60) as counter:
        counter.add(TABLE, "acme", 3, packed((4, 5, 6)))
    assert len(read(redis)) == 2


def test_a_lost_server_costs_counts_and_nothing_else(own_server: OwnValkey) -> None:
    redis = connect(own_server.url, retries=0)
    with MissCounter(redis, every_s=0.01) as counter:
        own_server.kill()
        counter.add(TABLE, "acme", 3, packed((1, 2, 3)))
        wait_until(lambda: not counter._waiting)
        own_server.start()
        counter.add(TABLE, "acme", 3, packed((4, 5, 6)))
        wait_until(lambda: [fragment.ids for fragment in read(redis)] == [(4, 5, 6)])
    assert not [thread for thread in threading.enumerate() if thread.name == "misses"]


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_fragments_of_any_size_come_back(redis: Redis, n: int) -> None:
    ids = tuple(range(100_000, 100_000 + n))
    count(redis, "acme", ids)
    assert [fragment.ids for fragment in read(redis)] == [ids]
