"""What clients take of this process while they send or read, as slowly as they like.

Each large body holds a thread of the web server while it comes in, and each download a connection, so that
one tenant with slow connections could take them all: of these a tenant has some at a time. Nobody who is
waited for holds a connection to the database, of which there are fewer.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from django.conf import settings
from django.db import connection

from tenants.base.errors import ErrorCode, HmiError

PIECES_AT_ONCE: Final = 4
DOWNLOADS_AT_ONCE: Final = 16
RETRY_AFTER_S: Final = 5

SMALL_BODY_BYTES: Final = 1024**2
"""What any request may send; more is taken only at some addresses, from callers who are known."""
FILES: Final = "HMI_UPLOAD_MAX_BYTES"
"""The setting that bounds the bodies of views that take files."""
INFERENCE: Final = "HMI_MAX_BODY_BYTES"
"""The setting that bounds the bodies of views that ask a model."""

View = TypeVar("View", bound=Callable[..., Any])


def takes_files(view: View) -> View:
    """Let a view have multipart forms up to HMI_UPLOAD_MAX_BYTES from callers who are known. A view that is
    a class has the attribute ``largest_body`` instead."""
    view.largest_body = FILES  # type: ignore[attr-defined]
    return view


class Places:
    """So many at a time for each of those who take part, and perhaps in total."""

    def __init__(self, each: int, *, total: Callable[[], int] | None = None) -> None:
        self._each, self._total = each, total
        self._lock = threading.Lock()
        self._taken: Counter[int | str] = Counter()
        """Who has none is not in it."""

    def take(self, owner: int | str) -> bool:
        """Take one of the owner's places. False while there is none."""
        with self._lock:
            is_full = self._total is not None and self._taken.total() >= self._total()
            if is_full or self._taken[owner] >= self._each:
                return False
            self._taken[owner] += 1
            return True

    def give_back(self, owner: int | str) -> None:
        """Once for each that was taken."""
        with self._lock:
            self._taken[owner] -= 1
            if not self._taken[owner]:
                del self._taken[owner]


_pieces = Places(PIECES_AT_ONCE, total=lambda: int(settings.HMI_WEB_THREADS) // 2)


@contextmanager
def upload_slot(sender: int | str) -> Iterator[None]:
    """Hold one of the sender's places: a tenant's, by its id. Raises ``queue_full`` while all are taken, or
    half of the web server's threads."""
    if not _pieces.take(sender):
        raise HmiError(
            ErrorCode.QUEUE_FULL,
            f"{PIECES_AT_ONCE} pieces of uploads are on their way already, or as many of others as can be;"
            " send this one in a moment.",
            details={"limit": PIECES_AT_ONCE},
            retry_after=RETRY_AFTER_S,
        )
    try:
        yield
    finally:
        _pieces.give_back(sender)


def release_database() -> None:
    """Give this thread's connection back before waiting for a client; what follows takes another. Not within
    a transaction, and not while something is held ``alone``."""
    if not connection.in_atomic_block:
        connection.close()
