"""Recognises errors that say that the memory of the machine or of its GPU is used up."""

import errno
from typing import Final

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
