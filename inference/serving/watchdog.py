"""Noticing that a loop hangs."""

import math
from collections.abc import Callable


class Watchdog:
    """``hangs`` is to be asked every ``every_s`` by another thread than the loop's; ``turns`` is what grows
    as long as the loop goes on, 0 before it has begun.

    Questions are counted, not seconds: a process that was stopped as a whole and goes on does not hang.
    """

    def __init__(self, turns: Callable[[], int], *, every_s: float, stuck_s: float) -> None:
        self._turns = turns
        self._most = math.ceil(stuck_s / every_s)
        self._seen = 0
        self._asked = 0

    def hangs(self) -> bool:
        """Whether there was no turn for ``stuck_s``."""
        turns = self._turns()
        self._asked = self._asked + 1 if turns == self._seen else 0
        self._seen = turns
        return turns > 0 and self._asked >= self._most
