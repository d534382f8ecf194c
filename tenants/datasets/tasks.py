"""Celery tasks of uploads."""

from functools import partial
from uuid import UUID

from celery import shared_task

from tenants.base.child_process import TASK_TIME_LIMIT_S, run_in_child_or_log
from tenants.datasets.services.checks import RUN_CHECK_TASK, check_run


@shared_task(name=RUN_CHECK_TASK, soft_time_limit=TASK_TIME_LIMIT_S)
def run_check(check_id: str) -> None:
    """Check uploads that are too large to be checked while a request waits."""
    run_in_child_or_log(partial(check_run, check_id=UUID(check_id)), f"check {check_id}")
