"""What is done beside the answer, so that nobody learns from how long the answer takes."""

import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from typing import Any

from django.db import connection

log = logging.getLogger(__name__)

THREADS = 2


class BackgroundTasks:
    """Does what it is given in threads of its own, in the context of whoever gave it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._made_by = 0
        self._open: set[Any] = set()

    def do(self, act: Callable[[], object]) -> None:
        """Returns at once; what goes wrong is for the log."""
        with self._lock:
            if self._pool is None or self._made_by != os.getpid():
                self._pool, self._made_by = ThreadPoolExecutor(THREADS, "afterwards"), os.getpid()
            doing = self._pool.submit(copy_context().run, _do, act)
            self._open.add(doing)
            doing.add_done_callback(self._open.discard)

    def finish(self, seconds: float | None = None) -> None:
        """Wait for what was given so far, so long at most."""
        wait(list(self._open), timeout=seconds)


def _do(act: Callable[[], object]) -> None:
    try:
        act()
    except Exception:
        log.exception("What was to be done after an answer failed")
    finally:
        connection.close()


background_tasks = BackgroundTasks()
