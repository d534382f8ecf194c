"""What clients take of this process while they send, as slowly as they like.

Each piece of a file, and each form with files, holds a thread of the web server, so that one tenant with slow
connections could take them all: of these a tenant has some at a time. No body holds a connection to the
database, of which there are fewer.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from django.db import connection

from tenants.errors import ErrorCode, HmiError

PIECES_AT_ONCE: Final = 4
RETRY_AFTER_S: Final = 5

_lock = threading.Lock()
_under_way: Counter[int | str] = Counter()
"""By the tenant's id, or who else sends; who sends nothing is not in it."""


@contextmanager
def receiving(sender: int | str) -> Iterator[None]:
    """Hold one of the sender's places: a tenant's, by its id. Raises ``queue_full`` while all are taken."""
    with _lock:
        if _under_way[sender] >= PIECES_AT_ONCE:
            raise HmiError(
                ErrorCode.QUEUE_FULL,
                f"{PIECES_AT_ONCE} pieces of uploads are on their way already; send this one in a moment.",
                details={"limit": PIECES_AT_ONCE},
                retry_after=RETRY_AFTER_S,
            )
        _under_way[sender] += 1
    try:
        yield
    finally:
        with _lock:
            _under_way[sender] -= 1
            if not _under_way[sender]:
                del _under_way[sender]


def release_database() -> None:
    """Give this thread's connection back before waiting for a client; what follows takes another. Not within
    a transaction, and not while something is held ``alone``."""
    if not connection.in_atomic_block:
        connection.close()
