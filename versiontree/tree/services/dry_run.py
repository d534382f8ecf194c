"""Doing everything that making a version does, so that nothing of it stays."""

from collections.abc import Callable

from django.db import transaction

from versiontree.tree.models import Version


def dry_run(make: Callable[[], Version]) -> Version:
    """The version that a service would make, with its parent and its ``config``, warnings included. Raises
    what the service raises."""
    with transaction.atomic():
        version = make()
        transaction.set_rollback(True)
    return version
