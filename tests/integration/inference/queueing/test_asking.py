"""Asking a worker for something."""

from collections.abc import Iterator

import pytest
from redis import Redis

from inference.queueing.connection import connect
from inference.queueing.worker_commands import ASKED_PREFIX, TOLD_PREFIX, TRACE, CommandListener, ask
from tests.integration.inference.queueing.requests import REQUESTS
from tests.processes import wait_until
from tests.services import OwnValkey


@pytest.fixture
def asked() -> list[str]:
    """A word for each time that a worker was asked."""
    return []


@pytest.fixture
def teller(redis: Redis, redis_url: str, asked: list[str]) -> Iterator[None]:
    def tell() -> bytes:
        asked.append("asked")
        return f"trace {len(asked)}".encode()

    with CommandListener(connect(redis_url, retries=0), "w1", {TRACE: tell, "else": lambda: b"else"}):
        yield


def test_a_worker_tells_whoever_asks_what_is_so_now(redis: Redis, teller: None) -> None:
    assert [ask(redis, "w1", TRACE) for _ in range(3)] == [b"trace 1", b"trace 2", b"trace 3"]


def test_what_is_asked_decides_what_is_told(redis: Redis, teller: None, asked: list[str]) -> None:
    assert ask(redis, "w1", "else") == b"else"
    assert ask(redis, "w1", "unheard of", within_s=0.2) is None
    assert asked == []


def test_nobody_is_told_twice_and_nothing_is_left(redis: Redis, teller: None) -> None:
    ask(redis, "w1", TRACE)
    assert [*redis.keys(ASKED_PREFIX + "*"), *redis.keys(TOLD_PREFIX + "*")] == []


def test_a_worker_that_is_not_there_tells_nothing_and_its_question_expires(
    redis: Redis, teller: None
) -> None:
    assert ask(redis, "w2", TRACE, within_s=0.1) is None
    assert 0 < redis.ttl(ASKED_PREFIX + "w2") <= 30


def test_who_has_gone_meanwhile_leaves_an_answer_that_expires(redis: Redis, teller: None) -> None:
    gone = TOLD_PREFIX + "gone"
    redis.rpush(ASKED_PREFIX + "w1", f"{TRACE} {gone}")
    wait_until(lambda: redis.exists(gone))
    assert 0 < redis.ttl(gone) <= 30


def test_no_other_key_is_written(redis: Redis, teller: None, asked: list[str]) -> None:
    redis.rpush(ASKED_PREFIX + "w1", f"{TRACE} {REQUESTS}", "nonsense", b"\xff")
    assert ask(redis, "w1", TRACE) == b"trace 1"
    assert not redis.exists(REQUESTS)


def test_a_worker_tells_again_after_a_restart_of_the_queue(own_server: OwnValkey) -> None:
    with CommandListener(connect(own_server.url, retries=0), "w1", {TRACE: lambda: b"here"}):
        own_server.kill()
        own_server.start()
        with connect(own_server.url) as redis:
            assert ask(redis, "w1", TRACE) == b"here"
