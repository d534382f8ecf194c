"""What Celery calls: a nudge to go on with a batch."""

import logging
from functools import partial
from typing import Final
from uuid import UUID

from celery import shared_task

from inference.batches.run import batch_run
from workers.processes import run_apart

log = logging.getLogger(__name__)

NAME: Final = "batches.run"


@shared_task(name=NAME)
def run(batch_id: str) -> None:
    """Work at a batch in a process of its own. What one that dies leaves is gone on with by another."""
    if code := run_apart(partial(batch_run, batch_id=UUID(batch_id))):
        log.error("The process of batch %s ended with %d", batch_id, code)
