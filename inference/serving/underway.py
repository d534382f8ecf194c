"""A batch between its beginning and its end."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Final

from inference.engine.flight import Flight, GivenUpError
from inference.engine.pipelining import Pipelining
from inference.engine.rows import Failed, Outcome
from inference.serving.backlog import Backlog, Batch

log = logging.getLogger(__name__)

LOOK_S: Final = 0.01
"""While one more batch could compute, it is looked so often for what it might be made of."""


@dataclass(frozen=True, slots=True, eq=False)
class Underway:
    """A batch that was begun, and the backlog that it was taken from."""

    backlog: Backlog
    batch: Batch
    flight: Flight

    @property
    def seconds(self) -> float:
        """How long its turn took."""
        return self.flight.turn.seconds

    def finish(self) -> list[Outcome]:
        """What came of its rows. A fault in the engine itself fails the batch, not the worker. Raises
        GivenUpError where nobody waited for it any more."""
        rows = self.flight.rows
        try:
            return self.batch.executor.finish(self.flight)
        except GivenUpError:
            raise
        except Exception:
            log.exception("a step of %d rows failed", len(rows))
            return [Failed(row, "inference_failed", "the model could not be computed") for row in rows]


class SideBySide:
    """The batches that are under way, the oldest first. There is room for as many as compute at once, and for
    one more with each that comes to its end. The threads that compute them tell how far they are; where there
    are none, one batch is computed by whoever ends it. But for that, one thread."""

    def __init__(self, pipelining: Pipelining) -> None:
        self._at_once = pipelining.at_once
        self.are_computed_elsewhere = pipelining.abreast > 0
        """Whether other threads compute them."""
        self._batches: dict[int, Underway] = {}
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

    def add(self, underway: Underway) -> None:
        """One more is under way."""
        self._batches[underway.flight.number] = underway
        if self.are_computed_elsewhere:
            underway.flight.when_done(lambda number: self._told.put((number, True)))

    def remove(self, underway: Underway) -> bool:
        """One has ended. Whether it was the oldest."""
        number = underway.flight.number
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

    def first_done(self, look_around: Callable[[], None]) -> Underway:
        """The one that is done first; the oldest, where whoever asks is to compute it. ``look_around`` is
        called meanwhile whenever there is room: at once when one comes to its end, else every LOOK_S."""
        if not self.are_computed_elsewhere:
            return next(iter(self._batches.values()))
        while True:
            try:
                number, done = self._told.get(timeout=LOOK_S if self.room else None)
            except Empty:
                look_around()
                continue
            if done:
                return self._batches[number]
            self.ends(number)
            look_around()
