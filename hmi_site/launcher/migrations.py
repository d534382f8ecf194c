"""Bringing the database up to date."""

from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from rich.console import Console

from tenants.base.row_security import walls_put_up


def apply(console: Console) -> int:
    """Apply what is pending and return how many migrations that was. Does little, fast, when none is.

    The policies between tenants are seen to each time: they may change without a migration.
    """
    executor = MigrationExecutor(connection)
    count = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
    if count:
        with console.status(f"Preparing the database ({count} migrations)"):
            call_command("migrate", interactive=False, verbosity=0)
    walls_put_up()
    return count
