"""The tasks that rebase models, and the message that starts the automatic one."""

from functools import partial
from typing import Final

from django.db import transaction

from tenants.base.dispatch import LONG_QUEUE, dispatch

REBASE_TASK: Final = "tree.rebase_models"
REBASE_DUE_TASK: Final = "tree.rebase_models_due"


def rebases_due_on_commit() -> None:
    """Have a worker call ``rebases_due``, after the transaction if there is one."""
    transaction.on_commit(partial(dispatch, REBASE_DUE_TASK, queue=LONG_QUEUE))
