"""Celery tasks that run in a process of their own.

Each is forked off the Celery pool process that took it, and when it ends, every byte it took goes back to the
system, the allocator's leftovers too. A fork costs milliseconds, and a task killed for want of memory takes
nothing else with it.

Stopping. A warm shutdown waits for the running task, which may take hours. So the worker's main process
raises a flag that its descendants share, and a task hands its work back at its next check. The flag is one
byte of anonymous shared memory, made before the pool forks: nothing to deliver, no race with Celery's own
handlers.
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

LONG_TASK_S: Final = 1800
"""What reads uploads may not hold its queue for ever. The limit raises in the pool process, which then kills
the process it waits for."""
VERY_LONG_TASK_S: Final = 4 * 3600
"""All data of a tenant may be much."""

_flag = mmap.mmap(-1, 1)


class WorkerStopping(Exception):
    """The worker shuts down: the work must stop here and go on elsewhere."""


def is_stopping() -> bool:
    """Whether this worker was asked to stop."""
    return _flag[0] == 1


@signals.worker_shutting_down.connect
def announce_stop(**_: Any) -> None:
    """Tell every process of this worker to hand its work back."""
    _flag[0] = 1


def run_or_log(work: Callable[[], None], what: str) -> None:
    """`run_in_child`, with a line in the log when the process ends badly."""
    if code := run_in_child(work):
        log.error("The process of %s ended with %d", what, code)


def run_in_child(work: Callable[[], None]) -> int:
    """Call `work` in a process of its own and wait; returns its exit code, negative for a signal.

    The process does not outlive this one, however that ends.
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
            connection.connection = None  # inherited and another's: not even to be closed from here
        if os.getppid() == parent:
            work()
            code = 0
    except BaseException:
        log.exception("A task's process ends early")
    finally:
        # Not sys.exit: what the pool process would do at its own end is not for this one to do.
        connections.close_all()
        logging.shutdown()
        os._exit(code)
