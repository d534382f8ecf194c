"""The batches that were begun and have not ended."""

from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final

from inference.engine.pipelining import Pipelining
from inference.serving.backlog import Backlog, ScheduledBatch
from inference.serving.clock import Clock

LOOK_S: Final = 0.01
"""While one more batch could compute, it is looked so often for what it might be made of."""


class InFlightBatches:
    """The batches that are under way, the oldest first. There is room for as many as compute at once, and for
    one more with each that comes to its end. The threads that compute them tell how far they are; where there
    are none, one batch is computed by whoever ends it. But for that, one thread."""

    def __init__(self, pipelining: Pipelining, clock: Clock) -> None:
        self._clock = clock
        self._at_once = pipelining.at_once
        self.are_computed_elsewhere = pipelining.parallel_batches > 0
        """Whether other threads compute them."""
        self._batches: dict[int, ScheduledBatch] = {}
        self._ending: set[int] = set()
        self._told: SimpleQueue[tuple[int, bool]] = SimpleQueue()

    def __len__(self) -> int:
        return len(self._batches)

    @property
    def room(self) -> int:
        """So many more may be begun."""
        return self._at_once - len(self._batches) + len(self._ending)

    def waits(self, backlog: Backlog) -> bool:
        """Whether one of this backlog waits until others are computed."""
        return sum(each.backlog is backlog for each in self._batches.values()) >= self._at_once

    def add(self, batch: ScheduledBatch) -> None:
        """One more is under way."""
        self._batches[batch.in_flight.number] = batch
        if self.are_computed_elsewhere:
            batch.in_flight.when_done(lambda number: self._told.put((number, True)))

    def remove(self, batch: ScheduledBatch) -> bool:
        """One has ended. Whether it was the oldest."""
        number = batch.in_flight.number
        oldest = number == next(iter(self._batches))
        del self._batches[number]
        self._ending.discard(number)
        return oldest

    def near_end(self, number: int) -> None:
        """One comes to its end; for any thread."""
        self._told.put((number, False))

    def ends(self, number: int) -> None:
        """One comes to its end, so that there is room for another."""
        self._ending.add(number)

    def first_done(self, look_around: Callable[[], None]) -> ScheduledBatch:
        """The one that is done first; the oldest, where whoever asks is to compute it. ``look_around`` is
        called meanwhile whenever there is room: at once when one comes to its end, else every LOOK_S."""
        if not self.are_computed_elsewhere:
            return next(iter(self._batches.values()))
        while True:
            try:
                number, done = self._clock.get(self._told, LOOK_S if self.room else None)
            except Empty:
                look_around()
                continue
            if done:
                return self._batches[number]
            self.ends(number)
            look_around()
