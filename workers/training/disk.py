"""The disk: a full one, known and said in one way whoever notices it, and what must be on it for good."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from safetensors import SafetensorError

from inference.hplm.errors import HplmError

FULL: Final = "The disk is full. Ask the administrator to make room, then start the job again."
_NUMBERS: Final = (errno.ENOSPC, errno.EDQUOT)
# Libraries pass the system's error on as text only.
_WORDS: Final = (
    "No space left on device",
    "Disk quota exceeded",
    *(f"os error {number}" for number in _NUMBERS),
)


def tells_of_full_disk(error: BaseException) -> bool:
    """Whether an error is that of a full disk: one of the system by its number, any other by its words."""
    if isinstance(error, OSError):
        return error.errno in _NUMBERS
    return any(words in str(error) for words in _WORDS)


@contextmanager
def full_disk_told() -> Iterator[None]:
    """Turn what Python and safetensors say of a full disk into HplmError("out_of_disk")."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        if tells_of_full_disk(error):
            raise HplmError("out_of_disk", FULL) from error
        raise


def sync(path: Path) -> None:
    """Put a file or the entries of a folder on disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
