"""Connections that outlive a restart of the server."""

from redis import Redis
from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import BusyLoadingError
from redis.retry import Retry

SOCKET_TIMEOUT_S = 10.0
MAX_CONNECTIONS = 8192
"""More than any process has threads. A pool of redis-py refuses the 101st by default."""


def connect(url: str, *, retries: int = 6) -> Redis:
    """A client for ``redis://`` or ``unix://`` urls.

    A command that meets a lost connection is repeated with exponential backoff, about three seconds in all
    with the default of six retries, before it raises. Every command of this package may be repeated safely.
    """
    return Redis.from_url(
        url,
        retry=Retry(ExponentialWithJitterBackoff(cap=1.0, base=0.05), retries),
        retry_on_error=[BusyLoadingError],
        socket_timeout=SOCKET_TIMEOUT_S,
        socket_connect_timeout=2.0,
        health_check_interval=30,
        max_connections=MAX_CONNECTIONS,
    )
