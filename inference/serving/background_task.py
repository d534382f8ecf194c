"""Prepared in the background, taken by the loop."""

from collections.abc import Callable
from concurrent.futures import Future, wait
from threading import Thread
from typing import Generic, TypeVar

Made = TypeVar("Made")


class BackgroundTask(Generic[Made]):
    """One piece of work at a time, in a thread of its own that keeps no process from ending. What it gave
    waits until it is taken by whoever began it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._future: Future[Made] | None = None

    @property
    def under_way(self) -> bool:
        """Whether something was begun and not yet taken."""
        return self._future is not None

    def begin(self, work: Callable[[], Made]) -> None:
        """Start it; only when nothing is under way."""
        assert self._future is None
        self._future = Future[Made]()
        Thread(target=_run, args=(work, self._future), name=self._name, daemon=True).start()

    def is_done_within(self, seconds: float) -> bool:
        """Wait for what was begun, at most for so long; whether nothing is still being worked at."""
        return self._future is None or not wait([self._future], timeout=seconds).not_done

    def take(self, *, wait: bool = False) -> Made | None:
        """What the work gave, once; raises what it raised. None when nothing was begun, or, without ``wait``,
        when it is not done yet."""
        future = self._future
        if future is None or not (wait or future.done()):
            return None
        self._future = None
        try:
            return future.result()
        finally:
            del future  # an exception would keep it, it the exception, and that all that had been loaded


def _run(work: Callable[[], Made], future: "Future[Made]") -> None:
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001 - it is raised to whoever takes the result
        future.set_exception(error)
        del future  # see `take`
