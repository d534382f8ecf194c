"""A real server for the queue's tests."""

from collections.abc import Iterator

import pytest
from redis import Redis

from inference.queueing.connection import connect
from tests.integration.queueing.valkey import ValkeyServer


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    server = ValkeyServer()
    yield server.start().url
    server.close()


@pytest.fixture
def redis(redis_url: str) -> Iterator[Redis]:
    """A connection to an empty server."""
    with connect(redis_url) as client:
        client.flushall()
        yield client


@pytest.fixture
def own_server() -> Iterator[ValkeyServer]:
    """A server that the test may kill."""
    server = ValkeyServer().start()
    yield server
    server.close()
