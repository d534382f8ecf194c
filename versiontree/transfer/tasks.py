"""Celery tasks of tenants that are deleted."""

from celery import shared_task

from tenants.base.child_process import LONG_TASK_TIME_LIMIT_S, run_in_child_or_log
from versiontree.transfer.services.tenant_deletion import DELETE_TENANTS_TASK, tenants_delete


@shared_task(name=DELETE_TENANTS_TASK, soft_time_limit=LONG_TASK_TIME_LIMIT_S)
def delete_tenants() -> None:
    """Delete the data of tenants that are being deleted."""
    run_in_child_or_log(tenants_delete, "deleting the data of tenants")
