"""Commands to a worker."""

from collections.abc import Iterator

import pytest
from redis import Redis

from inference.queueing.connection import connect
from inference.queueing.worker_commands import COMMANDS_PREFIX, REPLY_PREFIX, TRACE, CommandListener, ask
from tests.integration.inference.queueing.requests import REQUESTS
from tests.processes import wait_until
from tests.services import OwnValkey


@pytest.fixture
def asked() -> list[str]:
    """A word for each command that was run."""
    return []


@pytest.fixture
def listener(redis: Redis, redis_url: str, asked: list[str]) -> Iterator[None]:
    def trace() -> bytes:
        asked.append("asked")
        return f"trace {len(asked)}".encode()

    with CommandListener(connect(redis_url, retries=0), "w1", {TRACE: trace, "else": lambda: b"else"}):
        yield


def test_the_command_decides_the_reply(redis: Redis, listener: None, asked: list[str]) -> None:
    assert ask(redis, "w1", "else") == b"else"
    assert ask(redis, "w1", "unheard of", within_s=0.2) is None
    assert asked == []


def test_a_command_leaves_no_keys(redis: Redis, listener: None) -> None:
    ask(redis, "w1", TRACE)
    assert [*redis.keys(COMMANDS_PREFIX + "*"), *redis.keys(REPLY_PREFIX + "*")] == []


def test_a_command_to_an_absent_worker_expires(redis: Redis, listener: None) -> None:
    assert ask(redis, "w2", TRACE, within_s=0.1) is None
    assert 0 < redis.ttl(COMMANDS_PREFIX + "w2") <= 30


def test_a_reply_that_nobody_waits_for_expires(redis: Redis, listener: None) -> None:
    gone = REPLY_PREFIX + "gone"
    redis.rpush(COMMANDS_PREFIX + "w1", f"{TRACE} {gone}")
    wait_until(lambda: redis.exists(gone))
    assert 0 < redis.ttl(gone) <= 30


def test_no_other_key_is_written(redis: Redis, listener: None, asked: list[str]) -> None:
    redis.rpush(COMMANDS_PREFIX + "w1", f"{TRACE} {REQUESTS}", "nonsense", b"\xff")
    assert ask(redis, "w1", TRACE) == b"trace 1"
    assert not redis.exists(REQUESTS)


def test_commands_work_again_after_a_restart_of_the_queue(own_server: OwnValkey) -> None:
    with CommandListener(connect(own_server.url, retries=0), "w1", {TRACE: lambda: b"here"}):
        own_server.kill()
        own_server.start()
        with connect(own_server.url) as redis:
            assert ask(redis, "w1", TRACE) == b"here"
