"""Bringing the database up to date."""

from typing import Final

from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from rich.console import Console

from hmi_site.embedded.process import ChildError
from tenants.base.row_security import policies_apply

EARLIER_APPS: Final = frozenset({"tenants", "versiontree"})
"""Applications that made the tables before each subject had its own. Their migrations cannot be continued."""
EARLIER_DATABASE: Final = """\
The database of {home} was made by an earlier version of HMI, whose tables this one cannot read; nothing was
changed. With that version, take out what you want to keep:  python manage.py export_version REFERENCE
FILE.zip With this one, start anew and bring it in:          HMI_HOME=/another/folder make up"""


def apply(console: Console) -> int:
    """Apply what is pending and return how many migrations that was. Does little, fast, when none is.

    The policies between tenants are seen to each time: they may change without a migration. Raises
    ChildError for a database of before (`EARLIER_APPS`), and leaves it as it is.
    """
    executor = MigrationExecutor(connection)
    if EARLIER_APPS & {app for app, _ in executor.loader.applied_migrations}:
        raise ChildError(EARLIER_DATABASE.format(home=settings.HMI_HOME))
    count = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
    if count:
        with console.status(f"Preparing the database ({count} migrations)"):
            call_command("migrate", interactive=False, verbosity=0)
    policies_apply()
    return count
