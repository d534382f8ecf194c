"""A thread that calls a function periodically: heartbeats, leases, flushes of buffers."""

import threading
from collections.abc import Callable


class PeriodicThread:
    """Calls ``act`` every ``interval_s`` seconds in a daemon thread, from ``start`` until ``stop``.

    ``wake`` triggers the next call at once, but not within ``gap_s`` of the last one. The thread ends early
    if ``act`` returns False. ``at_end`` is called last, in the thread: it can close database connections.
    """

    def __init__(
        self,
        name: str,
        act: Callable[[], bool | None],
        *,
        interval_s: float,
        gap_s: float = 0.0,
        at_end: Callable[[], object] = lambda: None,
    ) -> None:
        self._act, self._at_end = act, at_end
        self._interval_s, self._gap_s = interval_s, gap_s
        self._wake, self._stopping = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread; the first call is after one interval. Call it only once."""
        self._thread.start()

    def wake(self) -> None:
        """Trigger the next call without waiting for the interval."""
        self._wake.set()

    def stop(self) -> None:
        """Stop the thread and wait for it."""
        self._stopping.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            while True:
                self._wake.wait(self._interval_s)
                self._wake.clear()
                if self._stopping.is_set() or self._act() is False or self._stopping.wait(self._gap_s):
                    return
        finally:
            self._at_end()
