"""Restarts the inference worker of the running product.

Imported once Django knows its settings.
"""

import time
from typing import Final

import psutil

from hmi_site.health import started_workers

PROGRAM: Final = "inference.worker"
PATIENCE_S, POLL_S = 120.0, 0.1


def restart_worker() -> None:
    """End the inference worker, and return once the launcher has another that is ready. Raises
    TimeoutError."""
    before = _ready_workers()
    for process in psutil.Process().children():
        if PROGRAM in process.cmdline():
            process.terminate()
    latest = time.monotonic() + PATIENCE_S
    while not _ready_workers() - before:
        if time.monotonic() > latest:
            raise TimeoutError("The inference worker has not become ready again.")
        time.sleep(POLL_S)


def _ready_workers() -> set[str]:
    return {worker.name for worker in started_workers() if worker.state == "ready"}
