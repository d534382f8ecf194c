"""A batch between its beginning and its end."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from inference.engine.executor import Flight
from inference.engine.rows import Failed, Outcome
from inference.serving.backlog import Backlog, Batch

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Underway:
    """A batch that was begun, and the backlog that it was taken from."""

    backlog: Backlog
    batch: Batch
    flight: Flight

    def finish(self, meanwhile: Callable[[], None]) -> list[Outcome]:
        """One step, and something else while it computes. A fault in the engine itself fails the batch, not
        the worker."""
        rows = self.flight.rows
        try:
            return self.batch.executor.finish(self.flight, meanwhile)
        except Exception:
            log.exception("a step of %d rows failed", len(rows))
            return [Failed(row, "inference_failed", "the hPLM could not be computed") for row in rows]

    def give_up(self) -> list[Outcome]:
        """Nobody waits for the batch any more."""
        self.batch.executor.abandon(self.flight)
        return [Failed(row, "deadline_exceeded", "nobody waits for it any more") for row in self.flight.rows]
