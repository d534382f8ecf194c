"""The time as the loop reads it, and how it waits; a simulator puts virtual time in its place."""

import time
from queue import SimpleQueue
from typing import TypeVar

Event = TypeVar("Event")


class Clock:
    """The system's."""

    def time(self) -> float:
        """Unix seconds."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that never jump."""
        return time.monotonic()

    def get(self, events: "SimpleQueue[Event]", timeout_s: float | None) -> Event:
        """The next event, waited for; raises queue.Empty when there is none within the timeout."""
        return events.get(timeout=timeout_s)
