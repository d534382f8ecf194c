"""File locks among the processes of one machine. The system releases a lock when its holder ends."""

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from django.conf import settings
from filelock import FileLock, Timeout

POLL_S: Final = 0.5


@contextmanager
def machine_lock(name: str, keep_waiting: Callable[[], bool] | None = None) -> Iterator[bool]:
    """Hold the lock of this name in the block; yields False if it could not be acquired.

    Without ``keep_waiting`` this does not wait. With it, it waits as long as ``keep_waiting`` returns True,
    which is called every half second. The file is in the temporary folder, because machines may share the
    artifact store. Each installation and each system user has separate locks.
    """
    site = hashlib.sha256(str(Path(settings.HMI_ARTIFACT_ROOT).resolve()).encode()).hexdigest()[:12]
    file = Path(tempfile.gettempdir()) / f"hmi-{name}-{os.getuid()}-{site}.lock"
    lock = FileLock(file, mode=0o600, thread_local=False)
    cancel = None if keep_waiting is None else lambda: not keep_waiting()
    try:
        lock.acquire(blocking=cancel is not None, poll_interval=POLL_S, cancel_check=cancel)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()
