"""Celery tasks of the version tree."""

from celery import shared_task

from versiontree.tree.services.rebase_tasks import REBASE_DUE_TASK, REBASE_TASK
from versiontree.tree.services.rebases import owner_rebase, rebases_due


@shared_task(name=REBASE_TASK)
def rebase_models(kind: str, owner_id: int, user_id: int) -> None:
    """Rebase the models of all tenants on a domain or root."""
    owner_rebase(kind=kind, owner_id=owner_id, user_id=user_id)


@shared_task(name=REBASE_DUE_TASK)
def rebase_models_due() -> None:
    """Rebase the models of the tenants that want it automatically."""
    rebases_due()
