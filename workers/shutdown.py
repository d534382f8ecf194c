"""How a job learns that its Celery worker was asked to stop.

A warm shutdown waits for the running task, and training takes minutes. So the worker's main process raises a
flag that its pool processes share, the job ends at its next check and goes back to the queue. The flag is one byte
of anonymous shared memory, made before the pool forks: nothing to deliver, no race with Celery's own handlers.
"""

import mmap

from celery import signals

_flag = mmap.mmap(-1, 1)


class WorkerStopping(Exception):
    """The worker shuts down: the job must stop here and go on elsewhere."""


def announce() -> None:
    """Tell every pool process of this worker to hand its job back."""
    _flag[0] = 1


def is_announced() -> bool:
    """Whether this worker was asked to stop."""
    return _flag[0] == 1


@signals.worker_shutting_down.connect
def _on_worker_shutting_down(**_: object) -> None:
    announce()
