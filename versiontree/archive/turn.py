"""Whose turn it is to import on this machine: one at a time, so that strangers' files do not fill its disk,
memory and cores from many threads at once.

A lock on a file that the system drops with the process that held it, however that ended.
"""

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from django.conf import settings

from tenants.errors import ErrorCode, HmiError

RETRY_AFTER_S: Final = 30


@contextmanager
def import_turn() -> Iterator[None]:
    """Hold this machine's turn. Raises ``queue_full`` while another import has it."""
    number = os.open(_lock_file(), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        _take(number)
        yield
    finally:
        os.close(number)


def _take(number: int) -> None:
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise HmiError(
            ErrorCode.QUEUE_FULL,
            "Another archive is being imported; try again in a moment.",
            retry_after=RETRY_AFTER_S,
        ) from error


def _lock_file() -> Path:
    """In this machine's own temporary folder, because the artifact store may be shared by many machines."""
    site = hashlib.sha256(str(Path(settings.HMI_ARTIFACT_ROOT).resolve()).encode()).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"hmi-import-{os.getuid()}-{site}.lock"
