"""Copies of files, files that nobody writes to any more, and disks that are full. No Django in here."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tenants.errors import ErrorCode, HmiError

READ_ONLY: Final = 0o444
"""The mode of a file whose bytes do not change any more."""
AT_ONCE_BYTES: Final = 1 << 30
NOT_HERE: Final = frozenset({errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EPERM})


def copy(source: Path, target: Path) -> None:
    """Make a new file with the same bytes; where the file system can, they share their place on the disk.

    Raises ``FileExistsError``, and ``OSError`` of a full disk.
    """
    with source.open("rb", buffering=0) as old, target.open("xb", buffering=0) as new:
        try:
            while os.copy_file_range(old.fileno(), new.fileno(), AT_ONCE_BYTES):
                continue
        except OSError as error:
            if error.errno not in NOT_HERE:
                raise
            shutil.copyfileobj(old, new)  # goes on where the other stopped


@contextmanager
def told_when_full() -> Iterator[None]:
    """Tell of a full disk as ``out_of_disk``."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        message = "The server's disk is full. Ask an administrator to make room, then try again."
        raise HmiError(ErrorCode.OUT_OF_DISK, message) from error
