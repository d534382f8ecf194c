"""What is left of prompts and answers in the server and in its append-only file."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from msgspec.structs import replace
from redis import Redis

from inference.queueing.connection import connect
from inference.queueing.kept_answers import KeptAnswers, Turn
from inference.queueing.retention import rewrite, rewrite_begin, tenant_forget
from inference.queueing.transport import RequestQueue
from tests.integration.inference.queueing.requests import (
    a_completion_request,
    a_request,
    a_worker,
    appended,
    depth,
    sequence_of,
    tokens_from,
)
from tests.processes import wait_until
from tests.services import OwnValkey
from tests.settings import home_base

SECRET = "mistletoe"
AS_TOKENS = sequence_of(SECRET).ids


@pytest.fixture
def server() -> Iterator[OwnValkey]:
    """A Valkey with an append-only file."""
    with tempfile.TemporaryDirectory(prefix="hmi-valkey-", dir=home_base()) as home:
        own = OwnValkey(Path(home), binary=settings.HMI_REDIS_BIN)
        own.start()
        yield own
        own.kill()


@pytest.fixture
def client(server: OwnValkey) -> Iterator[Redis]:
    with connect(server.url) as connected:
        connected.config_set("rdbcompression", "no")  # so that bytes can be looked for
        yield connected


def on_disk(server: OwnValkey) -> bool:
    """Whether the secret is in some file of the server."""
    contents = [path.read_bytes() for path in server.data.rglob("*") if path.is_file()]
    return any(form in content for content in contents for form in (SECRET.encode(), AS_TOKENS))


def in_memory(redis: Redis) -> bool:
    """Whether the secret is in some value or name of the server."""
    found = [part for key in redis.scan_iter() for part in (key, redis.dump(key) or b"")]
    return any(form in part for part in found for form in (SECRET.encode(), AS_TOKENS))


def keep_answer(redis: Redis, tenant: str, key: str = "k") -> Turn:
    turn = KeptAnswers(redis).begin(tenant, key, body="b", seconds=30)
    assert isinstance(turn, Turn)
    KeptAnswers(redis).keep(turn, SECRET.encode())
    return turn


def test_expired_messages_are_in_no_file_after_a_rewrite(server: OwnValkey, client: Redis) -> None:
    turn = keep_answer(client, "acme")
    rewrite(client)
    assert on_disk(server)
    client.pexpire(turn.key, 1)
    wait_until(lambda: not client.exists(turn.key))
    assert on_disk(server)
    assert rewrite_begin(client)
    wait_until(lambda: not on_disk(server))


def test_nothing_of_a_deleted_tenant_is_left_in_memory_or_on_disk(server: OwnValkey, client: Redis) -> None:
    queue, worker = RequestQueue(client, capacity=10), a_worker(client, "w1")
    secret = (sequence_of(SECRET),)
    for request in (a_request("waiting"), a_completion_request("running")):
        queue.submit(replace(request, sequences=secret))
    running = next(entry for entry in worker.read(10, 100) if entry.request.generate is not None)
    appended(worker, running, tokens_from(0, *map(ord, SECRET)))
    keep_answer(client, "acme", key=SECRET)
    keep_answer(client, "globex")
    assert in_memory(client)
    assert on_disk(server)
    tenant_forget(client, "acme")
    assert depth(client) == 0
    assert KeptAnswers(client).begin("globex", "k", body="b", seconds=30) == SECRET.encode()
    tenant_forget(client, "globex")
    assert not in_memory(client)
    assert not [key for key in client.scan_iter() if b"acme" in key or b"running" in key]
    rewrite(client)
    assert not on_disk(server)


def test_a_rewrite_that_was_killed_leaves_no_file(server: OwnValkey) -> None:
    unfinished = server.data / "temp-rewriteaof-bg-7.aof"  # as Valkey names it
    unfinished.write_text(SECRET)
    server.kill()
    server.start()
    assert not on_disk(server)


def test_a_server_without_such_a_file_writes_none(redis: Redis) -> None:
    assert not rewrite_begin(redis)
    rewrite(redis)
