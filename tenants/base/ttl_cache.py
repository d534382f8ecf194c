"""What was asked a moment ago, and need not be asked again: in the memory of each process."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, NamedTuple, TypeVar, cast

from cachetools import TLRUCache

Answer = TypeVar("Answer")

MOST: Final = 50_000


class CacheMiss(Exception):
    """It would have to be asked, and nobody may wait for that here."""


class Kept(NamedTuple):
    """An answer, and for how many seconds it is good."""

    answer: Any
    seconds: float


class TtlCache:
    """Answers by name, for any number of threads, which share them: nobody changes what they are given."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._kept: TLRUCache[str, Kept, float] = TLRUCache(
            MOST, ttu=lambda _, kept, now: now + kept.seconds, timer=clock
        )

    def get(self, name: str) -> Any:
        """None where there is none, or none that is still good."""
        with self._lock:
            kept = self._kept.get(name)
        return kept.answer if kept else None

    def set(self, name: str, answer: Any, seconds: float) -> None:
        """Keep it so long; the one that was asked least of late makes room."""
        with self._lock:
            self._kept[name] = Kept(answer, seconds)

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._kept.clear()


_moments = TtlCache()
_may_ask: ContextVar[bool] = ContextVar("may_ask", default=True)


def moments() -> TtlCache:
    """Those of this process."""
    return _moments


def cached(name: str, ask: Callable[[], Answer], seconds: float) -> Answer:
    """What ``ask`` says now, or said to this process under the same name so many seconds ago at most. None,
    and what it raised, are not remembered. Raises Forgotten within ``cached_only``."""
    known = _moments.get(name) if seconds else None
    if known is not None:
        return cast("Answer", known)
    if not _may_ask.get():
        raise CacheMiss(name)
    answer = ask()
    if seconds and answer is not None:
        _moments.set(name, answer, seconds)
    return answer


@contextmanager
def cached_only() -> Iterator[None]:
    """In here nothing is asked: for an event loop, which waits for nobody."""
    before = _may_ask.set(False)
    try:
        yield
    finally:
        _may_ask.reset(before)
