"""Recognises errors of used-up memory and of a lost device. Importing it does not load PyTorch."""

import errno
import logging
import traceback
from collections.abc import Callable
from typing import Final, TypeVar

from inference.errors import DeviceLostError

log = logging.getLogger(__name__)
Result = TypeVar("Result")

# Classes are compared by name, to avoid importing large libraries here.
_CLASSES: Final = frozenset({"MemoryError", "OutOfMemoryError", "OutOfMemoryException"})
# Messages of libraries without an exception class for it.
LIBRARY_ERRORS: Final = frozenset(
    {"RuntimeError", "AcceleratorError", "SafetensorError", "IOException", "DiskError", "Error"}
)
_MESSAGES: Final = (
    "out of memory",
    "not enough memory",
    "can't allocate memory",
    "Cannot allocate memory",
    # cuBLAS and cuDNN allocate beside PyTorch's allocator.
    "_STATUS_ALLOC_FAILED",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed: of PyTorch, CUDA's libraries, DuckDB, Python or the system."""
    if isinstance(error, MemoryError) or type(error).__name__ in _CLASSES:
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return type(error).__name__ in LIBRARY_ERRORS and any(part in str(error) for part in _MESSAGES)


def retry_with_freed_memory(attempt: Callable[[], Result], free_memory: Callable[[], None]) -> Result:
    """Return the result of ``attempt``. If it runs out of memory, call ``free_memory`` and try once more.

    Nothing of the first attempt is alive then. Raises what the second attempt raises.
    """
    try:
        return attempt()
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        log.warning("no memory is left on the device, the caches there are emptied: %s", error)
        traceback.clear_frames(error.__traceback__)  # they hold what the attempt had computed
    free_memory()
    return attempt()


def raise_if_device_lost(error: BaseException) -> None:
    """Raise DeviceLostError if the device computes nothing more in this process. Being out of memory is no
    such error.

    Call it wherever an error is attributed to one batch, one model or one root.
    """
    if isinstance(error, DeviceLostError):
        raise error
    import torch

    if isinstance(error, torch.AcceleratorError) and not is_out_of_memory(error):
        raise DeviceLostError(str(error)) from error
