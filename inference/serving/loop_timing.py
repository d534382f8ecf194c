"""The clock of the worker's loop, how long it waits, and how far it sees."""

import time
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TypeVar

Event = TypeVar("Event")


class Clock:
    """The system's time, and waiting; a simulator puts virtual time in its place."""

    def time(self) -> float:
        """Unix seconds."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that never jump."""
        return time.monotonic()

    def get(self, events: "SimpleQueue[Event]", timeout_s: float | None) -> Event:
        """The next event, waited for; raises queue.Empty when there is none within the timeout."""
        return events.get(timeout=timeout_s)


@dataclass(frozen=True, slots=True)
class LoopTiming:
    """How long the loop waits: for work when there is none, between two looks for what dead workers left and
    for what was cancelled, and after the queue's server was lost. ``backlog_rows`` is how many rows it holds
    at most, but for the last request that it reads, to choose the next batch from."""

    idle_wait_s: float = 0.1
    claim_every_s: float = 1.0
    drop_every_s: float = 0.2
    lost_wait_s: float = 0.5
    backlog_rows: int = 512
