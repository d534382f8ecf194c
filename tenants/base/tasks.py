"""Periodic Celery tasks. Each calls the functions that applications registered in ``hooks``."""

from celery import shared_task

from tenants.base import hooks
from tenants.base.disk_watch import disks_watch


@shared_task(name="base.recover_lost_work")
def recover_lost_work() -> None:
    """Requeue jobs whose worker died, and dispatch lost messages again."""
    hooks.recovery.call_each()


@shared_task(name="base.delete_expired")
def delete_expired() -> None:
    """Delete expired rows, files and artifacts."""
    hooks.expiry.call_each()


@shared_task(name="base.watch_disks")
def watch_disks() -> None:
    """Log the disks that are nearly full."""
    disks_watch()
