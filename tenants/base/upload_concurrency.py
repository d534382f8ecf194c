"""Limits on what slow clients may hold of a web process: threads, body sizes and database connections.

Each large body occupies a thread of the web server while it arrives, and each download a connection. Without
a limit for each tenant, one tenant with slow connections could take them all. A thread that waits for a
client holds no database connection, of which there are fewer.
"""

import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from django.conf import settings
from django.db import connection
from django.http import StreamingHttpResponse

from tenants.base.errors import ErrorCode, HmiError

MAX_CONCURRENT_UPLOADS: Final = 4
MAX_CONCURRENT_DOWNLOADS: Final = 16
MAX_CONCURRENT_STREAMS: Final = 32
"""Event streams of jobs that one tenant, or one session, may hold open in a web process, of
HMI_LIVE_STREAMS."""
RETRY_AFTER_S: Final = 5

SMALL_BODY_BYTES: Final = 1024**2
"""The body size of any request. Larger ones are for some views, and for authenticated callers."""
UPLOAD_BODY_LIMIT: Final = "HMI_UPLOAD_MAX_BYTES"
"""The setting with the body limit of views that accept files."""
INFER_BODY_LIMIT: Final = "HMI_MAX_BODY_BYTES"
"""The setting with the body limit of infer views."""

View = TypeVar("View", bound=Callable[..., Any])


def accepts_uploads(view: View) -> View:
    """Let a view accept multipart forms up to HMI_UPLOAD_MAX_BYTES from authenticated callers. View classes
    set the attribute ``body_limit_setting`` instead."""
    view.body_limit_setting = UPLOAD_BODY_LIMIT  # type: ignore[attr-defined]
    return view


class ConcurrencyLimit:
    """Counts what is in progress, with a limit for each owner and optionally in total."""

    def __init__(self, each: int, *, total: Callable[[], int] | None = None) -> None:
        self._each, self._total = each, total
        self._lock = threading.Lock()
        self._in_progress: Counter[int | str] = Counter()

    def acquire(self, owner: int | str) -> bool:
        """Take one of the owner's slots without waiting. Returns False if there is none."""
        with self._lock:
            is_full = self._total is not None and self._in_progress.total() >= self._total()
            if is_full or self._in_progress[owner] >= self._each:
                return False
            self._in_progress[owner] += 1
            return True

    def release(self, owner: int | str) -> None:
        """Give back a slot that was acquired."""
        with self._lock:
            self._in_progress[owner] -= 1
            if not self._in_progress[owner]:
                del self._in_progress[owner]

    def release_with(self, owner: int | str, response: StreamingHttpResponse) -> None:
        """Give back a slot when the response is closed, or garbage-collected without having been sent."""
        release = weakref.finalize(response, self.release, owner)
        release.atexit = False
        response._resource_closers.append(release)  # type: ignore[attr-defined]


_uploads = ConcurrencyLimit(MAX_CONCURRENT_UPLOADS, total=lambda: int(settings.HMI_WEB_THREADS) // 2)


@contextmanager
def upload_slot(sender: int | str) -> Iterator[None]:
    """Hold one of the sender's upload slots; the sender is a tenant's id, or a name.

    Raises ``queue_full`` while the sender's slots, or half of the web server's threads, are in use.
    """
    if not _uploads.acquire(sender):
        raise HmiError(
            ErrorCode.QUEUE_FULL,
            f"Too many uploads in progress: at most {MAX_CONCURRENT_UPLOADS} for each tenant, and fewer while"
            " the server is busy. Send this one again in a few seconds.",
            details={"limit": MAX_CONCURRENT_UPLOADS},
            retry_after=RETRY_AFTER_S,
        )
    try:
        yield
    finally:
        _uploads.release(sender)


def too_many_streams() -> HmiError:
    """The error ``queue_full`` for an event stream beyond MAX_CONCURRENT_STREAMS."""
    return HmiError(
        ErrorCode.QUEUE_FULL,
        f"Too many pages follow jobs live: at most {MAX_CONCURRENT_STREAMS} of each tenant, and fewer while"
        " the server is busy. Close some of them.",
        details={"limit": MAX_CONCURRENT_STREAMS},
        retry_after=RETRY_AFTER_S,
    )


def release_database() -> None:
    """Close this thread's database connection before it waits for a client. The next query opens another.

    Does nothing in a transaction. Do not call it while an ``advisory_lock`` is held.
    """
    if not connection.in_atomic_block:
        connection.close()
