"""Periodic Celery tasks: each calls what the applications have registered for it."""

from celery import shared_task

from tenants.base import hooks


@shared_task(name="base.recover_lost_work")
def recover_lost_work() -> None:
    """Return jobs whose worker died to the queue, and dispatch again whatever message was lost."""
    hooks.recovery.call_each()


@shared_task(name="base.delete_expired")
def delete_expired() -> None:
    """Delete rows, files and artifacts that nothing needs any more."""
    hooks.expiry.call_each()
