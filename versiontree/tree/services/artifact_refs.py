"""Attaching artifacts and collecting them keep out of each other's way: many attach at once, one collects.

Whoever attaches sees an artifact that is there and stays; whoever collects sees every link there is.
"""

from typing import Final

from django.db import connection

_LOCK: Final = 0x484D49
"""An advisory lock of PostgreSQL, let go of when the transaction ends."""


def artifact_refs_lock() -> None:
    """Keep collectors out until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock_shared(%s)", [_LOCK])


def garbage_collection_lock() -> None:
    """Wait until nobody is attaching, and keep others out until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
