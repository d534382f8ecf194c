"""Restarts the inference worker of the running product.

Imported once Django knows its settings.
"""

import os
import time
from typing import Final

import psutil

from hmi_site.health import ready_workers

PROGRAM: Final = "inference.worker"
PATIENCE_S, POLL_S = 120.0, 0.1


def restart_worker(miss_policy: str | None = None) -> None:
    """End the inference worker, and return once the launcher has another that is ready. miss_policy: from now
    on (None: the product's default). Raises TimeoutError."""
    if miss_policy is None:
        os.environ.pop("HMI_MISS_POLICY", None)
    else:
        os.environ["HMI_MISS_POLICY"] = miss_policy
    before = {worker.name for worker in ready_workers()}
    for process in psutil.Process().children():
        if PROGRAM in process.cmdline():
            process.terminate()
    latest = time.monotonic() + PATIENCE_S
    while not {worker.name for worker in ready_workers()} - before:
        if time.monotonic() > latest:
            raise TimeoutError("The inference worker has not become ready again.")
        time.sleep(POLL_S)
