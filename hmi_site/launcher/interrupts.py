"""Signals of the launcher: what ends it, and the end of a child."""

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ONE_AT_A_TIME_S = 1.0


class Stopped(BaseException):
    """Somebody asked the launcher to stop (Ctrl-C, SIGTERM, a closed terminal)."""


class ChildEnded(BaseException):
    """A child ended by itself. Not an Exception, so that no `except Exception` on the way keeps it."""


@dataclass
class Interrupts:
    """Whether signals raise. Whoever catches one of them disarms first: nothing may interrupt its clean-up.

    On the way from where it was raised to there, another signal must not take its place: for a second
    none does. (Not for ever: Python swallows what is raised in some places.)
    """

    armed: bool = True
    _quiet_until: float = float("-inf")
    _holding: bool = False
    _held: BaseException | None = None

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Within, nothing is raised; the first that would have been is raised at the end."""
        self._holding = True
        try:
            yield
        finally:
            self._holding = False
            late, self._held = self._held, None
        if late is not None:
            self.interrupt(late)

    def interrupt(self, error: BaseException) -> None:
        """Raise `error`, unless disarmed, held, or one is under way."""
        if self._holding:
            self._held = self._held or error
        elif self.armed and time.monotonic() >= self._quiet_until:
            self._quiet_until = time.monotonic() + ONE_AT_A_TIME_S
            raise error


@contextlib.contextmanager
def raising(interrupts: Interrupts, *, child_ended: Callable[[], bool]) -> Iterator[None]:
    """Within, an ending signal raises Stopped in the main thread, and a child that has ended ChildEnded."""

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a handler
        interrupts.interrupt(Stopped())

    def child(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a handler
        if child_ended():
            interrupts.interrupt(ChildEnded())

    handlers = {**dict.fromkeys(ENDING, stop), signal.SIGCHLD: child}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
