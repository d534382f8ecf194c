"""Signal handling of the launcher: stop signals, and the exit of a child."""

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
QUIET_S = 1.0


class StopRequested(BaseException):
    """The launcher received a stop signal (Ctrl-C, SIGTERM, a closed terminal)."""


class ChildExited(BaseException):
    """A child exited by itself. A BaseException, so that no `except Exception` swallows it."""


@dataclass
class Interrupts:
    """Whether signals raise exceptions. Code that catches one disarms first, so that its clean-up is not
    interrupted.

    For a second after one was raised, no other is, so that none replaces it. The time is limited, since
    Python swallows exceptions in some places, such as finalizers.
    """

    armed: bool = True
    _quiet_until: float = float("-inf")
    _is_deferring: bool = False
    _deferred: BaseException | None = None

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """Defer exceptions to the end of the block. Only the first is kept."""
        self._is_deferring = True
        try:
            yield
        finally:
            self._is_deferring = False
            error, self._deferred = self._deferred, None
        if error is not None:
            self.interrupt(error)

    def interrupt(self, error: BaseException) -> None:
        """Raise `error`, unless disarmed, deferring, or shortly after another."""
        if self._is_deferring:
            self._deferred = self._deferred or error
        elif self.armed and time.monotonic() >= self._quiet_until:
            self._quiet_until = time.monotonic() + QUIET_S
            raise error


@contextlib.contextmanager
def raise_on_signals(interrupts: Interrupts, *, child_exited: Callable[[], bool]) -> Iterator[None]:
    """In the block, stop signals raise StopRequested in the main thread, and a child's exit ChildExited."""

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a signal handler
        interrupts.interrupt(StopRequested())

    def child(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a signal handler
        if child_exited():
            interrupts.interrupt(ChildExited())

    handlers = {**dict.fromkeys(STOP_SIGNALS, stop), signal.SIGCHLD: child}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
