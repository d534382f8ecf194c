"""Dry runs: call a service and roll back everything that it wrote."""

from collections.abc import Callable
from typing import TypeVar

from django.db import transaction

Result = TypeVar("Result")


def dry_run(service: Callable[[], Result]) -> Result:
    """The service's result. Nothing that it wrote stays. Raises what the service raises."""
    with transaction.atomic():
        result = service()
        transaction.set_rollback(True)
    return result
