"""Locks among the processes of one machine. The system releases one when its holder ends, however it ends."""

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
def machine_lock(name: str, still_wanted: Callable[[], bool] | None = None) -> Iterator[bool]:
    """Hold the lock of this name in the block; gives False if it could not be acquired.

    While another holds it, ``still_wanted`` is asked every half second whether to wait on; without it there
    is no waiting. The file is in the machine's own temporary folder, because many machines may share the
    artifact store; each installation and each system user has locks of its own.
    """
    site = hashlib.sha256(str(Path(settings.HMI_ARTIFACT_ROOT).resolve()).encode()).hexdigest()[:12]
    file = Path(tempfile.gettempdir()) / f"hmi-{name}-{os.getuid()}-{site}.lock"
    lock = FileLock(file, mode=0o600, thread_local=False)
    cancel = None if still_wanted is None else lambda: not still_wanted()
    try:
        lock.acquire(blocking=cancel is not None, poll_interval=POLL_S, cancel_check=cancel)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()
