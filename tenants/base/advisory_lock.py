"""One at a time, on however many machines."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from uuid import UUID, uuid5

from django.db import connection

_OURS: Final = UUID("9d0cf1c5-5bd0-4a3c-9a4b-5b5f4c1f2c11")


@contextmanager
def advisory_lock(name: str) -> Iterator[bool]:
    """Whether this process, and no other, may do what this names in here.

    It holds a lock of the database session, which ends with the process: whoever is killed leaves the way
    free, and no clock has to be trusted.
    """
    key = _key(name)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [key])
        ours = bool(cursor.fetchone()[0])
    try:
        yield ours
    finally:
        if ours:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [key])


def advisory_xact_lock(name: str) -> None:
    """Wait until nobody else holds what this names, and hold it until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_key(name)])


def _key(name: str) -> int:
    return uuid5(_OURS, name).int & (2**63 - 1)
