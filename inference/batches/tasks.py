"""Celery tasks of batches."""

from functools import partial
from uuid import UUID

from celery import shared_task

from inference.batches.runner import batch_run
from inference.batches.services.lifecycle import RUN_BATCH_TASK
from tenants.base.child_process import run_in_child_or_log


@shared_task(name=RUN_BATCH_TASK)
def run_batch(batch_id: str) -> None:
    """Run one time slice of a batch. Another worker continues what a killed process leaves."""
    run_in_child_or_log(partial(batch_run, batch_id=UUID(batch_id)), f"batch {batch_id}")
