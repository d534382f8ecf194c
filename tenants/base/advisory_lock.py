"""PostgreSQL advisory locks: mutual exclusion among the processes of all machines."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from uuid import UUID, uuid5

from django.db import connection

_NAMESPACE: Final = UUID("9d0cf1c5-5bd0-4a3c-9a4b-5b5f4c1f2c11")


@contextmanager
def advisory_lock(name: str) -> Iterator[bool]:
    """Try to hold the lock of this name in the block, without waiting; yields whether it is held.

    The lock belongs to the database session. PostgreSQL releases it when the process ends, however it ends.
    """
    key = _key(name)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [key])
        acquired = bool(cursor.fetchone()[0])
    try:
        yield acquired
    finally:
        if acquired:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [key])


def advisory_xact_lock(name: str, *, shared: bool = False) -> None:
    """Wait for the lock of this name, and hold it until the transaction ends.

    Any number of transactions may hold a ``shared`` lock at once; an exclusive one waits for all of them.
    """
    function = "pg_advisory_xact_lock_shared" if shared else "pg_advisory_xact_lock"
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {function}(%s)", [_key(name)])


def _key(name: str) -> int:
    return uuid5(_NAMESPACE, name).int & (2**63 - 1)
