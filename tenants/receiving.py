"""How many pieces of files one tenant may be sending to this process at a time.

Each holds a thread of the web server for as long as its client likes, so that one tenant with slow
connections could take them all.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tenants.errors import ErrorCode, HmiError

PIECES_AT_ONCE: Final = 4
RETRY_AFTER_S: Final = 5

_lock = threading.Lock()
_under_way: Counter[int] = Counter()
"""By the tenant's id; a tenant that sends nothing is not in it."""


@contextmanager
def receiving(tenant_id: int) -> Iterator[None]:
    """Hold one of the tenant's places. Raises ``queue_full`` while all are taken."""
    with _lock:
        if _under_way[tenant_id] >= PIECES_AT_ONCE:
            raise HmiError(
                ErrorCode.QUEUE_FULL,
                f"{PIECES_AT_ONCE} pieces of uploads are on their way already; send this one in a moment.",
                details={"limit": PIECES_AT_ONCE},
                retry_after=RETRY_AFTER_S,
            )
        _under_way[tenant_id] += 1
    try:
        yield
    finally:
        with _lock:
            _under_way[tenant_id] -= 1
            if not _under_way[tenant_id]:
                del _under_way[tenant_id]
