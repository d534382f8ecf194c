"""Copies of files, files that nobody writes to any more, and disks that are full. No Django in here."""

import errno
import math
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tenants.base.errors import ErrorCode, HmiError

READ_ONLY: Final = 0o444
"""The mode of a file whose bytes do not change any more."""


SPARED_BYTES: Final = 256 * 1024**2
"""What stays free on the disk."""


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


def free_space_check(folder: Path, size: int) -> None:
    """Raises ``out_of_disk`` where the disk of `folder`, or of where it will be, has no room for so many
    bytes beside what others need to go on."""
    while not folder.exists():
        folder = folder.parent
    if shutil.disk_usage(folder).free < size + SPARED_BYTES:
        raise _disk_full()


@contextmanager
def disk_full_errors() -> Iterator[None]:
    """Raises ``out_of_disk`` in place of the system's error for a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise _disk_full() from error


def _disk_full() -> HmiError:
    message = "The server's disk is full. Ask an administrator to make room, then try again."
    return HmiError(ErrorCode.OUT_OF_DISK, message)


INCOMING = ".incoming"


@contextmanager
def workspace(store: Path, *, prefix: str = "") -> Iterator[Path]:
    """An empty folder on the store's own disk; it is gone afterwards, whatever happens."""
    folder = store / INCOMING / f"{prefix}{uuid.uuid4().hex}"
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep(store: Path, *, older_than_s: float) -> int:
    """Remove workspaces that killed processes left behind and nobody touched since; returns how many."""
    incoming = store / INCOMING
    if not incoming.is_dir():
        return 0
    limit = time.time() - older_than_s
    abandoned = [folder for folder in incoming.iterdir() if _last_touched(folder) < limit]
    for folder in abandoned:
        shutil.rmtree(folder, ignore_errors=True)
    return len(abandoned)


def sync(path: Path) -> None:
    """Put a file or the entries of a folder on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _last_touched(folder: Path) -> float:
    """When, in seconds since the epoch; infinitely late where its owner finishes while we look."""
    times: list[float] = []
    for place, _, files in os.walk(folder):
        for path in (Path(place), *(Path(place) / name for name in files)):
            try:
                times.append(path.lstat().st_mtime)
            except FileNotFoundError:
                return math.inf
    return max(times, default=math.inf)
