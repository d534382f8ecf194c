"""Celery tasks of takeouts and of tenants that are deleted."""

from functools import partial
from uuid import UUID

from celery import shared_task

from tenants.base.child_process import LONG_TASK_TIME_LIMIT_S, run_in_child_or_log
from versiontree.transfer.services.takeout_writer import takeout_run
from versiontree.transfer.services.takeouts import WRITE_TAKEOUT_TASK
from versiontree.transfer.services.tenant_deletion import DELETE_TENANTS_TASK, tenants_delete


@shared_task(name=WRITE_TAKEOUT_TASK, soft_time_limit=LONG_TASK_TIME_LIMIT_S)
def write_takeout(takeout_id: str) -> None:
    """Write the zip file of a takeout."""
    run_in_child_or_log(partial(takeout_run, takeout_id=UUID(takeout_id)), f"takeout {takeout_id}")


@shared_task(name=DELETE_TENANTS_TASK, soft_time_limit=LONG_TASK_TIME_LIMIT_S)
def delete_tenants() -> None:
    """Delete the data of tenants that are being deleted."""
    run_in_child_or_log(tenants_delete, "deleting the data of tenants")
