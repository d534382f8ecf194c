"""What the C library does with the memory of intermediate results between two batches."""

import ctypes
import logging
import os
from typing import Final

log = logging.getLogger(__name__)

ONE_ARENA: Final = (-8, 1)
"""M_ARENA_MAX: all threads share one heap. Those of other threads never keep blocks as large as these."""
KEPT_BYTES: Final = 1024**3
TRIMMED_ABOVE: Final = (-1, KEPT_BYTES)
"""M_TRIM_THRESHOLD: what is free at the end of the heap goes back to the system only above this."""
MAPPED_ABOVE: Final = -3
"""M_MMAP_THRESHOLD: blocks as large as this are asked of the system one by one, and go back to it at once."""
MAPPED_ABOVE_BYTES: Final = (KEPT_BYTES, 32 * 1024**2)
"""The second is the most that older versions take."""


def keep_freed_memory() -> bool:
    """Have the memory that a batch frees kept for the next one, whichever thread computes that; returns
    whether the C library could be told (glibc can).

    Else the system takes most of it back and hands it out anew, page by page and filled with zeros: some 4 %
    of the processor time of a batch of 32 texts of 128 tokens. To be called before PyTorch is first used: it
    is told to do without huge pages, which spare but a part of that, and whose alignment leaves holes in what
    is kept.
    """
    try:
        tell = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    mapped = any(tell(MAPPED_ABOVE, size) for size in MAPPED_ABOVE_BYTES)
    # Without the first, the second alone would have every larger block asked of the system.
    kept = mapped and bool(tell(*TRIMMED_ABOVE)) and bool(tell(*ONE_ARENA))
    if kept:
        os.environ["THP_MEM_ALLOC_ENABLE"] = "0"
    else:
        log.warning("The C library gives freed memory back to the system between batches")
    return kept
