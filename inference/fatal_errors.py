"""Ends a process that cannot go on, for whoever supervises it to start it again."""

import logging
import os
import threading
from typing import NoReturn

log = logging.getLogger(__name__)


def end_process(reason: str, error: BaseException | None = None) -> NoReturn:
    """Log the reason and end the process at once, with status 70. It waits for no thread: one may hang."""
    log.critical("%s; the process ends to be restarted", reason, exc_info=error)
    os._exit(os.EX_SOFTWARE)


def end_process_with_any_thread() -> None:
    """From now on an exception that nobody caught in a thread ends the process: what the thread did, such as
    its heartbeat, nothing else does."""

    def end(failure: threading.ExceptHookArgs) -> None:
        name = failure.thread.name if failure.thread else "unknown"
        end_process(f"the thread {name!r} has failed", failure.exc_value)

    threading.excepthook = end
