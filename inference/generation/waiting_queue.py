"""Sequences that wait to be computed, in the order in which they are due."""

import sys
from bisect import bisect_left, insort
from collections.abc import Iterator
from itertools import islice
from typing import Final

from inference.engine.fairness import FairShares
from inference.generation.sequence import Sequence

MAX_OVERTAKING: Final = 64
"""The most sequences that may start before the first one of the queue while its adapter has no room."""


class WaitingQueue:
    """A queue for each tenant in order of arrival; ``shares`` says which tenant is due.

    The sequence that was due first and could not start stays first, whoever comes.
    """

    def __init__(self, shares: FairShares) -> None:
        self._shares = shares
        self._queues: dict[str, list[Sequence]] = {}
        self._head: Sequence | None = None
        self._overtaken = 0  # so many started before the head

    def add(self, sequence: Sequence) -> None:
        """A new sequence, or one that was preempted, waits where its arrival puts it."""
        insort(self._queues.setdefault(sequence.tenant, []), sequence, key=_arrival)

    def start(self, sequence: Sequence) -> None:
        """The sequence starts: it waits no more."""
        self.remove(sequence)
        self._overtaken += 1

    def remove(self, sequence: Sequence) -> None:
        """The sequence waits no more."""
        queue = self._queues[sequence.tenant]
        del queue[bisect_left(queue, sequence.arrival, key=_arrival)]
        if not queue:
            del self._queues[sequence.tenant]
        if sequence is self._head:
            self._head = None

    def hold_first(self, sequence: Sequence) -> None:
        """The sequence could not start. It stays first, unless another one does already."""
        if self._head is None:
            self._head, self._overtaken = sequence, 0

    def may_be_overtaken(self, sequence: Sequence) -> bool:
        """Whether others may start before it although its adapter finds no room."""
        return sequence is not self._head or self._overtaken < MAX_OVERTAKING

    def first(self, count: int) -> list[Sequence]:
        """So many sequences at most, in the order in which they are due."""
        return [*islice(self._in_order(), count)]

    def _in_order(self) -> Iterator[Sequence]:
        if self._head is not None:
            yield self._head
        due = self._shares.due(self._queues, tokens=lambda s: s.new_tokens, ahead_tokens=sys.maxsize)
        yield from (sequence for sequence in due if sequence is not self._head)


def _arrival(sequence: Sequence) -> int:
    return sequence.arrival
