"""What a Celery pool process loads once for all jobs that are forked off it
(``tenants.base.child_process``): a job begins at once, and the pool process computes nothing, for threads
and devices do not survive a fork."""

import logging
import time
from functools import cache
from importlib import import_module
from typing import Final

log = logging.getLogger(__name__)

TRAINING: Final = ("workers.training.fine_tune", "workers.training.build_plot", "workers.training.convert")
"""What of ours imports, between them, all libraries that trainings need."""


@cache
def load_training() -> None:
    """Import what jobs need, for all that are forked off this process."""
    started = time.perf_counter()
    for name in TRAINING:
        import_module(name)
    log.info("Loaded what trains in %.1f s", time.perf_counter() - started)
