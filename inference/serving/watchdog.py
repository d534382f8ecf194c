"""Detects a stuck loop or a failed thread, and ends the process for its supervisor to start it again."""

import logging
import math
import os
import threading
from collections.abc import Callable
from typing import NoReturn

log = logging.getLogger(__name__)


class Watchdog:
    """``hangs`` is to be called every ``every_s`` by another thread than the loop's. ``iterations`` returns
    the loop's count of iterations, 0 before it has begun.

    Calls are counted, not seconds: a process that was stopped as a whole and goes on does not hang.
    """

    def __init__(self, iterations: Callable[[], int], *, every_s: float, stuck_s: float) -> None:
        self._iterations = iterations
        self._most = math.ceil(stuck_s / every_s)
        self._seen = 0
        self._calls = 0

    def hangs(self) -> bool:
        """Whether there was no iteration for ``stuck_s``."""
        iterations = self._iterations()
        self._calls = self._calls + 1 if iterations == self._seen else 0
        self._seen = iterations
        return iterations > 0 and self._calls >= self._most


def end_process(reason: str, error: BaseException | None = None) -> NoReturn:
    """Log the reason and end the process at once, with status 70. It waits for no thread: one may hang."""
    log.critical("%s; the process ends to be restarted", reason, exc_info=error)
    os._exit(os.EX_SOFTWARE)


def end_process_with_any_thread() -> None:
    """End the process at any uncaught exception in a thread: nothing else does that thread's work, such as
    the heartbeat."""

    def end(failure: threading.ExceptHookArgs) -> None:
        name = failure.thread.name if failure.thread else "unknown"
        end_process(f"the thread {name!r} has failed", failure.exc_value)

    threading.excepthook = end
