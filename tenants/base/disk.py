"""Copying and syncing files, temporary folders, and full disks. Does not use Django."""

import errno
import math
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tenants.base.errors import ErrorCode, HmiError

READ_ONLY: Final = 0o400
"""The mode of a file whose content is final. Like all files, it is for the product's user alone."""
LOW_PERCENT: Final = 5
"""A disk with less free space than this share is nearly full."""
RESERVED_BYTES: Final = 1024**3
"""Left free on a disk by all that stores files, for the database and its log. Of a small disk LOW_PERCENT."""
COPY_CHUNK_BYTES: Final = 1 << 30
COPY_RANGE_UNSUPPORTED: Final = frozenset(
    {errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EPERM}
)
INCOMING: Final = ".incoming"
"""The folder of workspaces in a store."""


def copy_file(source: Path, target: Path) -> None:
    """Copy a file to a new one. On file systems that support it, both share their blocks.

    Raises ``FileExistsError``, and ``OSError`` of a full disk.
    """
    with source.open("rb", buffering=0) as old, target.open("xb", buffering=0) as new:
        try:
            while os.copy_file_range(old.fileno(), new.fileno(), COPY_CHUNK_BYTES):
                continue
        except OSError as error:
            if error.errno not in COPY_RANGE_UNSUPPORTED:
                raise
            shutil.copyfileobj(old, new)  # continues where copy_file_range stopped


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """The bytes of the disk of a folder, and those that are free."""

    folder: Path
    device: int
    total: int
    free: int

    @property
    def free_percent(self) -> float:
        """The share of the free bytes."""
        return 100 * self.free / self.total if self.total else 100.0

    @property
    def is_low(self) -> bool:
        """Whether the disk is nearly full."""
        return self.free_percent < LOW_PERCENT

    @property
    def reserved(self) -> int:
        """The bytes that stay free."""
        return min(RESERVED_BYTES, self.total * LOW_PERCENT // 100)


def disk_space(folder: Path) -> DiskSpace:
    """The space of the folder's disk. The folder need not exist yet."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    usage = shutil.disk_usage(folder)
    return DiskSpace(folder, folder.stat().st_dev, usage.total, usage.free)


def free_space_check(folder: Path, size: int) -> None:
    """Raise ``out_of_disk`` unless ``size`` bytes fit on the folder's disk beside those that stay free. The
    folder need not exist yet."""
    space = disk_space(folder)
    if space.free < size + space.reserved:
        raise _disk_full()


@contextmanager
def disk_full_errors() -> Iterator[None]:
    """Turn the system's errors for a full disk into ``out_of_disk``."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise _disk_full() from error


def _disk_full() -> HmiError:
    message = "The server's disk is full. Ask an administrator to free disk space, then try again."
    return HmiError(ErrorCode.OUT_OF_DISK, message)


@contextmanager
def workspace(store: Path, *, prefix: str = "") -> Iterator[Path]:
    """Yield an empty temporary folder on the store's disk, and remove it afterwards."""
    folder = store / INCOMING / f"{prefix}{uuid.uuid4().hex}"
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_stale_workspaces(store: Path, *, older_than_s: float) -> int:
    """Remove the workspaces of killed processes, which nobody touched for so long. Returns how many."""
    incoming = store / INCOMING
    if not incoming.is_dir():
        return 0
    limit = time.time() - older_than_s
    stale = [folder for folder in incoming.iterdir() if _last_modified(folder) < limit]
    for folder in stale:
        shutil.rmtree(folder, ignore_errors=True)
    return len(stale)


def sync(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk (fsync)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _last_modified(folder: Path) -> float:
    """Return the newest modification time in a folder, or infinity if the folder disappears meanwhile."""
    times: list[float] = []
    for parent, _, files in os.walk(folder):
        for path in (Path(parent), *(Path(parent) / name for name in files)):
            try:
                times.append(path.lstat().st_mtime)
            except FileNotFoundError:
                return math.inf
    return max(times, default=math.inf)
