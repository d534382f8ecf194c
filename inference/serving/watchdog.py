"""Noticing that a loop hangs."""

import math
from collections.abc import Callable


class Watchdog:
    """``hangs`` is to be asked every ``every_s`` by another thread than the loop's; ``iterations`` is what
    grows as long as the loop goes on, 0 before it has begun.

    Questions are counted, not seconds: a process that was stopped as a whole and goes on does not hang.
    """

    def __init__(self, iterations: Callable[[], int], *, every_s: float, stuck_s: float) -> None:
        self._iterations = iterations
        self._most = math.ceil(stuck_s / every_s)
        self._seen = 0
        self._asked = 0

    def hangs(self) -> bool:
        """Whether there was no iteration for ``stuck_s``."""
        iterations = self._iterations()
        self._asked = self._asked + 1 if iterations == self._seen else 0
        self._seen = iterations
        return iterations > 0 and self._asked >= self._most
