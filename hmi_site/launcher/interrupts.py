"""Signals of the launcher: what ends it, and the end of a child."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType

Handler = Callable[[int, FrameType | None], None]
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(BaseException):
    """Somebody asked the launcher to stop (Ctrl-C, SIGTERM, a closed terminal)."""


class ChildEnded(BaseException):
    """A child ended by itself. Not an Exception, so that no `except Exception` on the way keeps it."""


@contextlib.contextmanager
def raising(on_child_end: Callable[[], None]) -> Iterator[None]:
    """Within, an ending signal raises Stopped in the main thread; `on_child_end` runs when a child ends."""

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a handler
        raise Stopped

    def child(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a handler
        on_child_end()

    with _handlers({**dict.fromkeys(ENDING, stop), signal.SIGCHLD: child}):
        yield


@contextlib.contextmanager
def ignored() -> Iterator[None]:
    """Within, impatience does not interrupt an orderly stop (it is bounded in time)."""

    def ignore(number: int, frame: FrameType | None) -> None:
        """Not SIG_IGN, which children would inherit."""

    with _handlers(dict.fromkeys((*ENDING, signal.SIGCHLD), ignore)):
        yield


@contextlib.contextmanager
def _handlers(handlers: dict[signal.Signals, Handler]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
