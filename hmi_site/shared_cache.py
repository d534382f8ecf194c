"""Django's Redis cache with a fallback to local memory while Redis is unavailable.

django-allauth counts attempts in it. With the fallback, sign-in still works and attempts are still limited.
"""

import json
import logging
from collections.abc import Callable
from typing import Any

from django.core.cache.backends.base import BaseCache
from django.core.cache.backends.locmem import LocMemCache
from django.core.cache.backends.redis import RedisCache
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

log = logging.getLogger(__name__)

TIMEOUT_S = 0.5


class Json:
    """Serializes values as JSON. Integers stay plain, so that INCR works."""

    def dumps(self, value: Any) -> Any:
        return value if type(value) is int else json.dumps(value)

    def loads(self, stored: bytes) -> Any:
        return json.loads(stored)


def _with_fallback(name: str) -> Callable[..., Any]:
    def call(self: "SharedCache", *args: Any, **kwargs: Any) -> Any:
        try:
            return getattr(super(SharedCache, self), name)(*args, **kwargs)
        except RedisError as error:
            log.error("Redis is unavailable, attempts are counted in this process only: %s", error)
            return getattr(self.local, name)(*args, **kwargs)

    return call


class SharedCache(RedisCache):  # type: ignore[misc,unused-ignore]
    """Falls back to a cache in local memory on each error of Redis."""

    def __init__(self, server: str, params: dict[str, Any]) -> None:
        timeouts = {"socket_timeout": TIMEOUT_S, "socket_connect_timeout": TIMEOUT_S}
        options = {"serializer": Json(), "retry": Retry(NoBackoff(), 0), **timeouts}
        super().__init__(server, {**params, "OPTIONS": options})
        self.local = LocMemCache("redis-fallback", {"OPTIONS": {"MAX_ENTRIES": 100_000}})

    get, set, add = _with_fallback("get"), _with_fallback("set"), _with_fallback("add")
    delete, touch = _with_fallback("delete"), _with_fallback("touch")
    incr, has_key = _with_fallback("incr"), _with_fallback("has_key")
    get_many, set_many, delete_many = BaseCache.get_many, BaseCache.set_many, BaseCache.delete_many

    def clear(self) -> None:
        """Delete the keys of the cache only. Django's method would flush the queues, too."""
        self.local.clear()
        try:
            client = self._cache.get_client(write=True)
            for key in client.scan_iter(self.make_key("*")):
                client.delete(key)
        except RedisError as error:
            log.error("The cache could not be cleared: %s", error)
