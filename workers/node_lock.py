"""One training job at a time on a machine, so that two do not thrash its cores, memory and accelerator.

A lock on a file that the system drops with the process that held it, however that ended.
"""

import fcntl
import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from django.conf import settings

LOOK_EVERY_S: Final = 0.5


@contextmanager
def node_lock(still_wanted: Callable[[], bool] | None = None) -> Iterator[bool]:
    """Hold this machine's turn; False when it did not come.

    While another holds it, `still_wanted` is asked again and again whether to wait on; without it there is no
    waiting.
    """
    number = os.open(_lock_file(), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        mine = _try(number)
        while not mine and still_wanted is not None and still_wanted():
            time.sleep(LOOK_EVERY_S)
            mine = _try(number)
        yield mine
    finally:
        os.close(number)


def _try(number: int) -> bool:
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lock_file() -> Path:
    """In this machine's own temporary folder, because the artifact store may be shared by many machines."""
    site = hashlib.sha256(str(Path(settings.HMI_ARTIFACT_ROOT).resolve()).encode()).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"hmi-training-{os.getuid()}-{site}.lock"
