"""Work done in threads after the response, so that the response time does not reveal what it was."""

import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context

from django.db import connection

log = logging.getLogger(__name__)

THREADS = 2


class BackgroundTasks:
    """A thread pool that runs each task in the caller's context. It is created anew after a fork."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._pid = 0
        self._pending: set[Future[None]] = set()

    def run(self, task: Callable[[], object]) -> None:
        """Schedule a task and return at once. Its exceptions are logged."""
        with self._lock:
            if self._pool is None or self._pid != os.getpid():
                self._pool, self._pid = ThreadPoolExecutor(THREADS, "background-tasks"), os.getpid()
            future = self._pool.submit(copy_context().run, _run, task)
            self._pending.add(future)
            future.add_done_callback(self._pending.discard)

    def join(self, timeout: float | None = None) -> None:
        """Wait for all scheduled tasks, at most ``timeout`` seconds."""
        wait(list(self._pending), timeout=timeout)


def _run(task: Callable[[], object]) -> None:
    try:
        task()
    except Exception:
        log.exception("A background task failed")
    finally:
        connection.close()


background_tasks = BackgroundTasks()
