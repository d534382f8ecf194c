"""Connections to the test run's server, and servers that a test may kill."""

from collections.abc import Iterator

import pytest
from redis import Redis

from inference.queueing.connection import connect
from tests.integration.queueing.valkey import ValkeyServer


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
