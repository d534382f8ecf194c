"""Telling Celery that a job can be run."""

from typing import Final
from uuid import UUID

from django.db import transaction

from tenants.base.dispatch import TRAINING_QUEUE, dispatch

RUN_JOB_TASK: Final = "workers.run_job"


def job_dispatch(*, job_id: UUID, priority: int) -> None:
    """Send the job's id to the training queue once the transaction is committed."""
    transaction.on_commit(
        lambda: dispatch(RUN_JOB_TASK, str(job_id), queue=TRAINING_QUEUE, priority=priority)
    )
