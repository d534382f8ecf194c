"""A cache in the memory of each process, whose entries expire."""

import threading
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar, cast

from cachetools import TLRUCache

Value = TypeVar("Value")

MAX_ENTRIES: Final = 50_000


class CacheEntry(NamedTuple):
    """A value, and its time to live in seconds."""

    value: Any
    ttl_s: float


class TtlCache:
    """A thread-safe cache. Threads share the values, so nobody may change them."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._entries: TLRUCache[str, CacheEntry, float] = TLRUCache(
            MAX_ENTRIES, ttu=lambda _, entry, now: now + entry.ttl_s, timer=clock
        )

    def get(self, key: str) -> Any:
        """Return the value, or None if it is missing or expired."""
        with self._lock:
            entry = self._entries.get(key)
        return entry.value if entry else None

    def set(self, key: str, value: Any, ttl_s: float) -> None:
        """Store a value. A full cache drops the least recently used one."""
        with self._lock:
            self._entries[key] = CacheEntry(value, ttl_s)

    def clear(self) -> None:
        """Drop all entries."""
        with self._lock:
            self._entries.clear()


_process_cache = TtlCache()


def process_cache() -> TtlCache:
    """Return the cache that ``cached`` uses in this process."""
    return _process_cache


def cached(key: str, load: Callable[[], Value], ttl_s: float) -> Value:
    """Return the cached value, or call ``load`` and cache its result for ``ttl_s`` seconds.

    None and exceptions are not cached.
    """
    known = _process_cache.get(key) if ttl_s else None
    if known is not None:
        return cast("Value", known)
    value = load()
    if ttl_s and value is not None:
        _process_cache.set(key, value, ttl_s)
    return value
