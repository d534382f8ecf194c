"""Celery tasks of batches."""

from functools import partial
from uuid import UUID

from celery import shared_task

from inference.batches.runner import batch_run
from inference.batches.services.batches import RUN_BATCH_TASK
from tenants.base.child_process import run_or_log


@shared_task(name=RUN_BATCH_TASK)
def run_batch(batch_id: str) -> None:
    """Work at a batch. What a process that dies leaves is gone on with by another."""
    run_or_log(partial(batch_run, batch_id=UUID(batch_id)), f"batch {batch_id}")
