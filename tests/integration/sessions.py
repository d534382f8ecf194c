"""Sessions of the database, of which one waits for another."""

from collections.abc import Callable
from typing import TypeVar

from django.db import connection

from tests.processes import wait_until

Result = TypeVar("Result")
WAITING = "FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


def by_itself(act: Callable[..., Result], *args: object, **named: object) -> Result:
    """What this comes to, in a thread that has a session of its own until then."""
    try:
        return act(*args, **named)
    finally:
        connection.close()


def wait_for_a_waiting_session() -> None:
    """Until another session of this database waits for a lock."""

    def waits() -> bool:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_stat_clear_snapshot()")
            cursor.execute(f"SELECT EXISTS (SELECT {WAITING})")
            return bool(cursor.fetchone()[0])

    wait_until(waits)
