"""Database migrations at start-up."""

from typing import Final

from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from rich.console import Console

from hmi_site.embedded.process import ChildError
from tenants.base.row_security import policies_apply

OLD_APPS: Final = frozenset({"tenants", "versiontree"})
"""Apps of an earlier version. Its databases cannot be migrated."""
OLD_DATABASE_MESSAGE: Final = """\
The database of {home} was created by an earlier version of HMI and cannot be read. Nothing was changed.
With the earlier version, export what you want to keep:  python manage.py export_version REFERENCE FILE.zip
With this version, start with an empty home and import:  HMI_HOME=/another/folder make up"""


def database_is_empty() -> bool:
    """Whether no table has been created yet."""
    return not connection.introspection.table_names()


def apply(console: Console) -> int:
    """Apply pending migrations and return their number.

    Also applies the row-level security policies, which may change without a migration. Raises ChildError for
    a database of an earlier version.
    """
    executor = MigrationExecutor(connection)
    if OLD_APPS & {app for app, _ in executor.loader.applied_migrations}:
        raise ChildError(OLD_DATABASE_MESSAGE.format(home=settings.HMI_HOME))
    count = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
    if count:
        with console.status(f"Preparing the database ({count} migrations)"):
            call_command("migrate", interactive=False, verbosity=0)
    policies_apply()
    return count
