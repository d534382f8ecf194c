"""`flush` between tests that commit. Django's has all tables emptied and all that `migrate` makes made anew,
each time, and fails when a request that nobody waits for any more is under way."""

import time
from typing import Any

from django.core.management.commands import flush
from django.db import OperationalError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.errors import DeadlockDetected

OF_MIGRATIONS = ["django_content_type", "auth_permission", "django_migrations"]
"""Their rows come with the tables, and are the same for all tests."""
QUIET_WITHIN_S, POLL_S, ATTEMPTS = 20.0, 0.01, 5

USED = """
    SELECT quote_ident(relname) FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
      AND relname <> ALL(%s) AND pg_relation_size(oid) > 0
"""
BUSY = """
    SELECT state, query FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle'
"""


class Command(flush.Command):
    """Empties the tables in which something was written, once nobody is at work."""

    def handle(self, **options: Any) -> None:
        """Raises TimeoutError with what is under way if that does not end."""
        connection = connections[options["database"]]
        wait_until_quiet(connection)
        for attempt in range(ATTEMPTS):
            try:
                empty(connection)
            except OperationalError as error:
                if not isinstance(error.__cause__, DeadlockDetected) or attempt == ATTEMPTS - 1:
                    raise
            else:
                break


def wait_until_quiet(connection: BaseDatabaseWrapper) -> None:
    """What a browser asked for last may still be drawn after the browser is closed."""
    deadline = time.monotonic() + QUIET_WITHIN_S
    while busy := _rows(connection, BUSY):
        if time.monotonic() > deadline:
            raise TimeoutError(f"The database is still used after the test: {busy}")
        time.sleep(POLL_S)


def empty(connection: BaseDatabaseWrapper) -> None:
    """Rows of other tables that refer to those go as well."""
    used = [name for (name,) in _rows(connection, USED, [OF_MIGRATIONS])]
    if used:
        with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
            cursor.execute(f"TRUNCATE {', '.join(used)} CASCADE")


def _rows(connection: BaseDatabaseWrapper, query: str, parameters: list[Any] | None = None) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        rows: list[Any] = cursor.fetchall()
        return rows
