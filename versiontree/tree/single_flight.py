"""One piece of work for all who ask for it at about the same time, whichever processes they are in."""

import fcntl
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final

COUNTS: Final = struct.Struct("<QQ")
"""What stands in the lock's file: how often the work was begun, and which of these last ended well."""


def single_flight(lock: Path, work: Callable[[], None]) -> None:
    """Return when ``work`` has been done that began after this call, by this caller or by another.

    Callers take turns, and who finds at their turn that such work is done does none: of many that come while
    one works, one works next, for all of them. Work that fails is done again by the next. ``lock`` is a file
    in a folder that is there; what ``work`` raises is raised.
    """
    handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        begun_before, _ = _read(handle)
        fcntl.flock(handle, fcntl.LOCK_EX)
        begun, done = _read(handle)
        if done > begun_before:
            return
        os.pwrite(handle, COUNTS.pack(begun + 1, done), 0)
        work()
        os.pwrite(handle, COUNTS.pack(begun + 1, begun + 1), 0)
    finally:
        os.close(handle)


def _read(handle: int) -> tuple[int, int]:
    content = os.pread(handle, COUNTS.size, 0)
    if len(content) < COUNTS.size:
        return 0, 0
    begun, done = COUNTS.unpack(content)
    return begun, done
