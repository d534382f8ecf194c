"""A thread that calls a function at an interval, for heartbeats, leases and buffers that are flushed."""

import threading
from collections.abc import Callable


class PeriodicThread:
    """Calls ``act`` every ``interval_s`` seconds from a daemon thread, from ``start`` until ``stop``.

    ``wake`` makes the next call come at once, but ``gap_s`` after the last one. The thread ends early when
    ``act`` returns False. ``at_end`` is its last call, however it ends: what needs the thread's own database
    connection belongs there.
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
        """Begin; the first call comes after an interval. Once only."""
        self._thread.start()

    def wake(self) -> None:
        """Call ``act`` without waiting for the interval."""
        self._wake.set()

    def stop(self) -> None:
        """End the thread and wait for it."""
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
