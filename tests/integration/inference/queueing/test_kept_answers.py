"""Answers kept by idempotency key, against a real server."""

import time

import pytest
from redis import Redis

from inference.queueing import keys
from inference.queueing.kept_answers import MOST_BYTES_EACH, InFlight, KeptAnswers, OtherBody, Turn


@pytest.fixture
def kept(redis: Redis) -> KeptAnswers:
    return KeptAnswers(redis)


def turn(kept: KeptAnswers, key: str = "k", tenant: str = "acme", seconds: float = 30.0) -> Turn:
    """The right to answer, which must be had."""
    begun = kept.begin(tenant, key, body="b", seconds=seconds)
    assert isinstance(begun, Turn)
    return begun


def test_kept_answer_is_returned_to_the_same_call_again(kept: KeptAnswers, redis: Redis) -> None:
    kept.keep(turn(kept), b"the answer")
    for _ in range(2):
        assert kept.begin("acme", "k", body="b", seconds=30) == b"the answer"
    assert 590_000 < int(redis.pttl(keys.kept("acme", "k"))) <= 600_000


def test_the_same_key_with_another_body_is_refused_whether_answered_or_not(kept: KeptAnswers) -> None:
    begun = turn(kept)
    with pytest.raises(OtherBody):
        kept.begin("acme", "k", body="other", seconds=30)
    kept.keep(begun, b"the answer")
    with pytest.raises(OtherBody):
        kept.begin("acme", "k", body="other", seconds=30)


def test_same_call_before_the_answer_is_in_flight(kept: KeptAnswers) -> None:
    turn(kept)
    with pytest.raises(InFlight):
        kept.begin("acme", "k", body="b", seconds=30)


def test_keys_are_their_tenant_s_alone(kept: KeptAnswers) -> None:
    kept.keep(turn(kept), b"the answer")
    turn(kept, tenant="globex")


def test_call_without_an_answer_is_begun_anew(kept: KeptAnswers) -> None:
    kept.release(turn(kept))
    turn(kept)


def test_a_process_that_died_is_in_flight_no_longer_than_its_call_could_last(kept: KeptAnswers) -> None:
    lost = turn(kept, seconds=0.05)
    time.sleep(0.1)
    current = turn(kept)
    kept.keep(lost, b"too late")
    kept.release(lost)
    with pytest.raises(InFlight):
        kept.begin("acme", "k", body="b", seconds=30)
    kept.keep(current, b"the answer")
    assert kept.begin("acme", "k", body="b", seconds=30) == b"the answer"


def test_an_answer_that_is_kept_is_never_replaced_nor_released(kept: KeptAnswers) -> None:
    begun = turn(kept)
    kept.keep(begun, b"first")
    kept.keep(begun, b"second")
    kept.release(begun)
    assert kept.begin("acme", "k", body="b", seconds=30) == b"first"


def test_a_large_answer_is_not_kept(kept: KeptAnswers) -> None:
    kept.keep(turn(kept), b"x" * (MOST_BYTES_EACH + 1))
    kept.keep(turn(kept), b"x" * MOST_BYTES_EACH)
    assert kept.begin("acme", "k", body="b", seconds=30) == b"x" * MOST_BYTES_EACH


def test_the_oldest_answers_make_room(redis: Redis) -> None:
    kept = KeptAnswers(redis, most_bytes=250)
    for name in "abcd":
        kept.keep(turn(kept, name), name.encode() * 100)
        time.sleep(0.002)
    for name in "cd":
        assert kept.begin("acme", name, body="b", seconds=30) == name.encode() * 100
    turn(kept, "a")
    turn(kept, "b")
    assert redis.get(keys.KEPT_BYTES) == b"200"


def test_a_tenant_with_many_answers_pushes_out_its_own_and_nobody_else_s(redis: Redis) -> None:
    kept = KeptAnswers(redis, most_bytes=1000, most_bytes_of_tenant=250)
    kept.keep(turn(kept, tenant="globex"), b"the answer")
    for number in range(40):
        kept.keep(turn(kept, f"k{number:02}"), b"x" * 100)
        time.sleep(0.002)
    assert kept.begin("globex", "k", body="b", seconds=30) == b"the answer"
    for number in (38, 39):
        assert kept.begin("acme", f"k{number}", body="b", seconds=30) == b"x" * 100
    turn(kept, "k37")
    assert redis.hgetall(keys.KEPT_BYTES_OF) == {b"acme": b"200", b"globex": b"10"}
    assert redis.get(keys.KEPT_BYTES) == b"210"
    assert redis.zcard(keys.KEPT) == 3


def test_what_the_server_forgot_of_a_tenant_is_counted_no_more(redis: Redis) -> None:
    kept = KeptAnswers(redis, most_bytes=1000, most_bytes_of_tenant=250)
    for name in "ab":
        kept.keep(turn(kept, name), b"x" * 100)
    redis.delete(f"{keys.KEPT_OF_PREFIX}acme")
    for name in "cde":
        kept.keep(turn(kept, name), b"x" * 100)
    assert kept.begin("acme", "e", body="b", seconds=30) == b"x" * 100
    assert int(redis.hget(keys.KEPT_BYTES_OF, "acme") or 0) <= 250


def test_answers_that_have_expired_take_no_room(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = KeptAnswers(redis, most_bytes=250)
    with monkeypatch.context() as brief:
        brief.setattr("inference.queueing.kept_answers.KEPT_S", 0.05)
        for name in "ab":
            kept.keep(turn(kept, name), b"x" * 100)
        time.sleep(0.1)
        again = turn(kept, "a")
        kept.keep(turn(kept, "c"), b"x" * 100)
        assert redis.get(keys.KEPT_BYTES) == b"100"
    kept.keep(again, b"new")  # as of now nothing expires, however long this took
    assert redis.get(keys.KEPT_BYTES) == b"103"
    assert redis.zcard(keys.KEPT) == 2


def test_answers_that_the_server_evicted_do_not_make_it_refuse_others(redis: Redis) -> None:
    kept = KeptAnswers(redis, most_bytes=250)
    for _ in range(3):
        evicted = turn(kept, "a")
        kept.keep(evicted, b"x" * 100)
        redis.delete(evicted.key)
    assert redis.get(keys.KEPT_BYTES) == b"100"
    redis.delete(keys.KEPT)
    for name in "bcd":
        kept.keep(turn(kept, name), name.encode() * 100)
    assert kept.begin("acme", "d", body="b", seconds=30) == b"d" * 100
    assert int(redis.get(keys.KEPT_BYTES) or 0) <= 250
