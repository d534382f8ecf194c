"""Limits by the minute, shared by processes: each `LocalBuckets` stands for one, on the real Valkey."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.conf import settings as django_settings
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from redis import Redis

from inference.api.rates.limits import FORGET_AFTER_S, DailyLimit, Limit
from inference.api.rates.spending import RETRY_AFTER_S, STALE_AFTER_S, LimitExceeded, LocalBuckets
from inference.queueing.token_buckets import connect_briefly
from tests.processes import wait_until
from tests.services import OwnValkey

MINUTE_S = 60
GONE = -2
"""What Redis says of a key that has ended."""


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def process(redis: Redis, redis_url: str, patient_limits: None) -> Iterator[Callable[[], LocalBuckets]]:
    """Makes one more process."""
    clients: list[Redis] = []

    def make() -> LocalBuckets:
        clients.append(connect_briefly(redis_url))
        return LocalBuckets(clients[-1])

    yield make
    for client in clients:
        client.close()


def limit(per_minute: int, whom: str = "tenant", what: str = "requests") -> Limit:
    return Limit(f"{whom}:1:{what}", whom, what, per_minute)


def may(buckets: LocalBuckets, *limits: Limit, amount: int = 1) -> bool:
    """Whether so much was let through."""
    try:
        buckets.spend(limits, amount)
    except LimitExceeded:
        return False
    return True


def questions(redis: Redis) -> int:
    """How often Valkey was asked to run a script."""
    found: Any = redis.info("commandstats")
    return int(found.get("cmdstat_eval", {}).get("calls", 0))


def test_many_threads_of_many_processes_get_what_the_limit_allows_and_no_more(
    process: Callable[[], LocalBuckets],
) -> None:
    processes, begun = [process() for _ in range(3)], time.monotonic()
    with ThreadPoolExecutor(24) as pool:
        let = sum(pool.map(lambda n: may(processes[n % 3], limit(100)), range(400)))
    flowed = 100 * (time.monotonic() - begun) / MINUTE_S
    assert 100 <= let <= 100 + flowed + 1


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    per_minute=st.integers(1, 5000),
    acts=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3000), st.booleans()), max_size=40),
)
@example(per_minute=1, acts=[(0, 4, True), *[(0, 1, False)] * 4])
def test_spent_sum_stays_within_the_limit_whatever_is_spent_and_refunded(
    process: Callable[[], LocalBuckets], redis: Redis, per_minute: int, acts: list[tuple[int, int, bool]]
) -> None:
    redis.flushall()
    processes, begun = [process() for _ in range(3)], time.monotonic()
    held, spent, last = limit(per_minute), 0, [0, 0, 0]
    for who, amount, refunded in acts:
        if may(processes[who], held, amount=amount):
            if refunded:
                processes[who].refund([held], amount)
            else:
                spent, last[who] = spent + amount, amount
    flowed = per_minute * (time.monotonic() - begun) / MINUTE_S
    # The last of each process may be more than a minute's worth: what one has in hand it may spend while
    # another is in debt.
    assert spent - sum(last) <= per_minute + flowed + 1


def of_today(amount: int, *, counted: int = 0) -> DailyLimit:
    return DailyLimit("tenant:1:requests a day:today", "tenant", "requests a day", amount, counted)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    amount=st.integers(1, 1200),
    counted=st.integers(0, 40),
    acts=st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0, 0, 1, 3])), max_size=60),
)
def test_many_at_once_get_a_days_limit_and_no_more_whatever_each_turns_out_to_be(
    process: Callable[[], LocalBuckets],
    redis: Redis,
    amount: int,
    counted: int,
    acts: list[tuple[int, int]],
) -> None:
    """Each act is a process that is asked, and as how many its request counts in the end: none if it was
    refused, several if it was a request of a batch."""
    redis.flushall()
    processes, day = [process() for _ in range(3)], of_today(amount, counted=counted)
    left = max(0, amount - counted)

    def ask(act: tuple[int, int]) -> int:
        here, counts = processes[act[0]], act[1]
        if not may(here, day):
            return 0
        if counts == 0:
            here.refund([day], 1)
        elif counts > 1:
            here.charge([day], counts - 1)
        return counts

    with ThreadPoolExecutor(8) as pool:
        used = sum(1 if counts else 0 for counts in pool.map(ask, acts))
        used += sum(pool.map(lambda _: may(processes[0], day), range(min(50, amount))))
    assert used <= left


def test_a_days_limit_is_given_out_to_the_last_and_does_not_flow_in(
    process: Callable[[], LocalBuckets],
) -> None:
    processes = [process() for _ in range(3)]
    with ThreadPoolExecutor(24) as pool:
        let = sum(pool.map(lambda n: may(processes[n % 3], of_today(100, counted=7)), range(300)))
    assert let == 93
    with pytest.raises(LimitExceeded) as refusal:
        processes[0].spend([of_today(100, counted=100)], 1)
    assert refusal.value.left <= 0
    assert 0 < refusal.value.wait_s <= 24 * 3600


def test_reservation_of_a_killed_process_expires(process: Callable[[], LocalBuckets], redis: Redis) -> None:
    killed, other = process(), process()
    assert [may(killed, of_today(3)) for _ in range(3)] == [True] * 3
    assert not may(process(), of_today(3))
    (bucket,) = redis.keys("hmi:allowance:*")
    longest = max(django_settings.HMI_GENERATION_DEADLINE_S, django_settings.HMI_INFER_DEADLINE_S)
    assert longest < redis.ttl(bucket) <= longest + FORGET_AFTER_S
    redis.delete(bucket)  # its time is over
    assert [may(other, of_today(3, counted=1)) for _ in range(3)] == [True, True, False]


def test_nothing_is_counted_when_one_of_two_limits_is_used_up(process: Callable[[], LocalBuckets]) -> None:
    buckets, wide, narrow = process(), limit(100), limit(2, whom="key")
    assert [may(buckets, wide, narrow) for _ in range(4)] == [True, True, False, False]
    assert 98 <= buckets.state(wide).left < 100
    with pytest.raises(LimitExceeded) as refusal:
        buckets.spend([wide, narrow], 1)
    assert refusal.value.limit == narrow
    assert 10 < refusal.value.wait_s <= 30  # for one of two a minute


def test_refunded_amount_can_be_spent_again(process: Callable[[], LocalBuckets]) -> None:
    buckets, tokens = process(), limit(1000, what="tokens")
    buckets.spend([tokens], 900)
    buckets.refund([tokens], 900)
    assert 999 <= buckets.state(tokens).left <= 1000
    assert may(buckets, tokens, amount=850)


def test_more_than_a_minutes_worth_is_let_through_by_an_untouched_limit_alone(
    process: Callable[[], LocalBuckets],
) -> None:
    here, there, tokens = process(), process(), limit(100, what="tokens")
    assert may(here, tokens, amount=5000)
    assert here.state(tokens).left == 0
    assert not may(here, tokens)
    assert not may(there, tokens)


def test_charge_beyond_a_limit_counts_in_all_processes(process: Callable[[], LocalBuckets]) -> None:
    first, second = process(), process()
    first.charge([limit(100)], 150)
    assert not may(first, limit(100))
    assert not may(second, limit(100))
    first.charge([limit(100, "key")], 40)
    assert may(second, limit(100, "key"), amount=60)


def test_a_limit_that_is_changed_holds_at_once(process: Callable[[], LocalBuckets]) -> None:
    buckets = process()
    assert [may(buckets, limit(2)) for _ in range(3)] == [True, True, False]
    wait_until(lambda: may(buckets, limit(6000)))  # it fills from where it stood


def test_few_of_many_requests_reach_valkey(process: Callable[[], LocalBuckets], redis: Redis) -> None:
    buckets, before = process(), questions(redis)
    for _ in range(3000):
        buckets.spend([limit(60_000)], 1)
    assert questions(redis) - before == 3000 / (60_000 / 200)


def test_spending_of_other_processes_is_seen_after_a_while(
    process: Callable[[], LocalBuckets], redis_url: str
) -> None:
    clock, held = Clock(), limit(60_000)
    with connect_briefly(redis_url) as client:
        here = LocalBuckets(client, clock=clock)
        here.spend([held], 1)
        process().spend([held], 50_000)
        assert here.state(held).left > 59_000
        clock.now += STALE_AFTER_S + 1
        here.spend([held], 1)
        assert here.state(held).left < 40_000


def test_a_bucket_that_is_full_again_leaves_nothing_behind(
    process: Callable[[], LocalBuckets], redis: Redis
) -> None:
    process().spend([limit(60_000)], 600)
    left_ms = redis.pttl("hmi:allowance:tenant:1:requests")
    assert left_ms == GONE or 0 <= left_ms <= 3_000


def test_without_valkey_there_are_no_limits_and_with_it_there_are_again(
    own_server: OwnValkey, caplog: pytest.LogCaptureFixture
) -> None:
    clock, held = Clock(), limit(2)
    with connect_briefly(own_server.url) as client:
        buckets = LocalBuckets(client, clock=clock)
        assert [may(buckets, held) for _ in range(3)] == [True, True, False]
        own_server.kill()
        clock.now += STALE_AFTER_S + 1
        assert all(may(buckets, held) for _ in range(50))
        assert [record.levelname for record in caplog.records] == ["ERROR"]
        own_server.start()
        clock.now += RETRY_AFTER_S + 0.1
        let = [may(buckets, held) for _ in range(4)]
        assert let.count(True) <= 3
        assert not let[-1]
        assert "counted again" in caplog.text
