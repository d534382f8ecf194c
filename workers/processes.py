"""How jobs and Celery's processes live together.

A process per job. Each job is forked off the Celery pool process that took it, and when it ends, every byte a
training took goes back to the system, the allocator's leftovers too. A fork of the pool process costs
milliseconds, a job killed for want of memory takes nothing else with it, and unlike with
`max_tasks_per_child`, which may leave a worker idle for seconds, the next job begins at once: the pool
process has what all trainings import loaded since the first, but computes nothing, for threads and devices
do not survive a fork.

Stopping. A warm shutdown waits for the running task, and training takes minutes. So the worker's main process
raises a flag that its descendants share, and the job goes back to the queue at its next check. The flag is
one byte of anonymous shared memory, made before the pool forks: nothing to deliver, no race with Celery's own
handlers.
"""

import logging
import mmap
import os
import signal
import time
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, Final, NoReturn

from celery import signals
from celery.platforms import set_pdeathsig  # type: ignore[attr-defined]  # unknown to celery-types
from django.db import connections

log = logging.getLogger(__name__)

_flag = mmap.mmap(-1, 1)

TRAINING: Final = ("workers.training.fine_tune", "workers.training.build_plot", "workers.training.convert")
"""What of ours imports, between them, all libraries that trainings need."""


class WorkerStopping(Exception):
    """The worker shuts down: the job must stop here and go on elsewhere."""


def is_stopping() -> bool:
    """Whether this worker was asked to stop."""
    return _flag[0] == 1


@signals.worker_shutting_down.connect
def announce_stop(**_: Any) -> None:
    """Tell every process of this worker to hand its job back."""
    _flag[0] = 1


@cache
def load_training() -> None:
    """Import what jobs need, for all that are forked off this process."""
    started = time.perf_counter()
    for name in TRAINING:
        import_module(name)
    log.info("Loaded what trains in %.1f s", time.perf_counter() - started)


def run_apart(work: Callable[[], None]) -> int:
    """Call `work` in a process of its own and wait; returns its exit code, negative for a signal.

    The process does not outlive this one, however that ends.
    """
    connections.close_all()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        _be_the_child(work, parent)
    try:
        _, status = os.waitpid(child, 0)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    return os.waitstatus_to_exitcode(status)


def _be_the_child(work: Callable[[], None], parent: int) -> NoReturn:
    code = 1
    try:
        set_pdeathsig("SIGKILL")
        for connection in connections.all(initialized_only=True):
            connection.connection = None  # inherited and another's: not even to be closed from here
        if os.getppid() == parent:
            work()
            code = 0
    except BaseException:
        log.exception("A job's process ends early")
    finally:
        # Not sys.exit: what the pool process would do at its own end is not for this one to do.
        connections.close_all()
        logging.shutdown()
        os._exit(code)
