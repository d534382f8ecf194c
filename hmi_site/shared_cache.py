"""The cache that all web processes share: how often somebody tried codes and forms, by django-allauth.

It lies in Valkey, as JSON. While Valkey is away each process counts for itself: whoever signs in then is let
in, and who tries codes is still stopped.
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
    """Values as they lie in Valkey: numbers bare, as counting needs them."""

    def dumps(self, value: Any) -> Any:
        return value if type(value) is int else json.dumps(value)

    def loads(self, stored: bytes) -> Any:
        return json.loads(stored)


def _shared_or_own(name: str) -> Callable[..., Any]:
    def call(self: "SharedCache", *args: Any, **kwargs: Any) -> Any:
        try:
            return getattr(super(SharedCache, self), name)(*args, **kwargs)
        except RedisError as error:
            log.error("Tries are counted by this process alone: %s", error)
            return getattr(self.own, name)(*args, **kwargs)

    return call


class SharedCache(RedisCache):  # type: ignore[misc,unused-ignore]
    """Django's, which never fails."""

    def __init__(self, server: str, params: dict[str, Any]) -> None:
        patience = {"socket_timeout": TIMEOUT_S, "socket_connect_timeout": TIMEOUT_S}
        options = {"serializer": Json(), "retry": Retry(NoBackoff(), 0), **patience}
        super().__init__(server, {**params, "OPTIONS": options})
        self.own = LocMemCache("while-valkey-is-away", {"OPTIONS": {"MAX_ENTRIES": 100_000}})

    get, set, add = _shared_or_own("get"), _shared_or_own("set"), _shared_or_own("add")
    delete, touch = _shared_or_own("delete"), _shared_or_own("touch")
    incr, has_key = _shared_or_own("incr"), _shared_or_own("has_key")
    get_many, set_many, delete_many = BaseCache.get_many, BaseCache.set_many, BaseCache.delete_many

    def clear(self) -> None:
        """Django's would empty the queues, too."""
        self.own.clear()
        try:
            client = self._cache.get_client(write=True)
            for key in client.scan_iter(self.make_key("*")):
                client.delete(key)
        except RedisError as error:
            log.error("The shared cache could not be emptied: %s", error)
