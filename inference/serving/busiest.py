"""Label values that come from outside, held to a number: the busiest by name, all others together."""

import time
from collections.abc import Callable, Hashable, Mapping
from heapq import nlargest
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

OTHER = "other"
REVIEW_S = 60.0


class Busiest(Generic[Key]):
    """Which names have time series of their own: at most ``limit``, those that were counted most of late.

    A name that loses its place to a busier one loses its series; when it comes back they begin at zero, which
    Prometheus reads as the reset of a counter. What is counted in between belongs to ``other`` and stays
    there, so that no series ever falls and nothing is counted twice.
    """

    def __init__(self, limit: int, *, other: Key, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._other = other
        self._clock = clock
        self._named: set[Key] = set()
        self._recent: dict[Key, float] = {}
        self._next_review = clock() + REVIEW_S

    def label(self, name: Key) -> Key:
        """What the name is counted under now: itself, or ``other``."""
        return name if name in self._named else self._other

    def note(self, counts: Mapping[Key, int]) -> set[Key]:
        """Take new counts, and give free places to new names. Returns those that have just lost theirs."""
        # The series of all others is never to be dropped, so a name that is theirs can have no place.
        new = {name: count for name, count in counts.items() if name != self._other}
        for name, count in new.items():
            self._recent[name] = self._recent.get(name, 0.0) + count
        gone = self._review() if self._clock() >= self._next_review else set()
        for name in new:
            if len(self._named) < self._limit:
                self._named.add(name)
        return gone

    def _review(self) -> set[Key]:
        """Half of what was counted is forgotten each time; among equals, who has a place keeps it."""
        recent, before = self._recent, self._named
        rank = {name: (recent.get(name, 0.0), name in before) for name in {*recent, *before}}
        self._named = set(nlargest(self._limit, rank, key=rank.__getitem__))
        self._recent = {name: count / 2 for name, count in recent.items() if count >= 2}
        self._next_review = self._clock() + REVIEW_S
        return before - self._named
