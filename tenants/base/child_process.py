"""Celery tasks that run in a child process.

The Celery pool process forks a child for each task. When the child ends, all its memory returns to the
system, and an out-of-memory kill hits only the child. A fork takes milliseconds.

Shutdown: a warm shutdown waits for the running task, which may take hours. So the worker's main process sets
a flag, and the task hands its work back at its next check. The flag is one byte of anonymous shared memory,
created before the pool forks: no message to deliver, no race with Celery's own signal handlers.
"""

import logging
import mmap
import os
import signal
from collections.abc import Callable
from typing import Any, Final, NoReturn

from celery import signals
from celery.platforms import set_pdeathsig  # type: ignore[attr-defined]  # unknown to celery-types
from django.db import connections

log = logging.getLogger(__name__)

TASK_TIME_LIMIT_S: Final = 1800
"""For tasks that read uploads. The limit raises in the pool process, which then kills the child."""
LONG_TASK_TIME_LIMIT_S: Final = 4 * 3600
"""For tasks that read or delete all data of a tenant."""

_stop_flag = mmap.mmap(-1, 1)


class WorkerStopping(Exception):
    """The worker is shutting down: stop here, and let another worker continue."""


def is_stopping() -> bool:
    """Return whether this worker is shutting down."""
    return _stop_flag[0] == 1


@signals.worker_shutting_down.connect
def request_stop(**_: Any) -> None:
    """Make every process of this worker hand its work back."""
    _stop_flag[0] = 1


def run_in_child_or_log(work: Callable[[], None], what: str) -> None:
    """Call `run_in_child` and log a non-zero exit code."""
    if code := run_in_child(work):
        log.error("The child process of %s exited with code %d", what, code)


def run_in_child(work: Callable[[], None]) -> int:
    """Run `work` in a child process, wait, and return its exit code, negative for a signal.

    The child is killed when this process ends.
    """
    connections.close_all()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        _run_and_exit(work, parent)
    try:
        _, status = os.waitpid(child, 0)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    return os.waitstatus_to_exitcode(status)


def _run_and_exit(work: Callable[[], None], parent: int) -> NoReturn:
    code = 1
    try:
        set_pdeathsig("SIGKILL")
        for connection in connections.all(initialized_only=True):
            connection.connection = None  # the parent's: closing it here would break it there
        if os.getppid() == parent:
            work()
            code = 0
    except BaseException:
        log.exception("A task failed in its child process")
    finally:
        # Not sys.exit: the exit handlers are the pool process's.
        connections.close_all()
        logging.shutdown()
        os._exit(code)
