"""A disk that is full, said in one way whoever notices it."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from safetensors import SafetensorError

from inference.hplm.errors import HplmError

# safetensors passes the system's error on as text only.
_FULL = (f"os error {errno.ENOSPC}", f"os error {errno.EDQUOT}")
MESSAGE = "The disk is full. Ask the administrator to make room, then start the job again."


@contextmanager
def full_disk_told() -> Iterator[None]:
    """Turn what Python and safetensors say of a full disk into HplmError("out_of_disk")."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise HplmError("out_of_disk", MESSAGE) from error
        raise
    except SafetensorError as error:
        if any(code in str(error) for code in _FULL):
            raise HplmError("out_of_disk", MESSAGE) from error
        raise
