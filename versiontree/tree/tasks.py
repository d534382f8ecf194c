"""Celery tasks of the version tree that need no PyTorch."""

from functools import partial
from uuid import UUID

from celery import shared_task

from tenants.base.child_process import TASK_TIME_LIMIT_S, run_in_child_or_log
from versiontree.tree.services.fine_tunings import START_FINE_TUNING_TASK, fine_tuning_start


@shared_task(name=START_FINE_TUNING_TASK, soft_time_limit=TASK_TIME_LIMIT_S)
def start_fine_tuning(fine_tuning_id: str) -> None:
    """Make a dataset of files that a client of the OpenAI conventions sent, and create the version."""
    work = partial(fine_tuning_start, fine_tuning_id=UUID(fine_tuning_id))
    run_in_child_or_log(work, f"fine-tuning {fine_tuning_id}")
