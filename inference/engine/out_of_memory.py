"""Tries again, with freed memory, what found none on the device."""

import logging
import traceback
from collections.abc import Callable
from typing import TypeVar

import torch

log = logging.getLogger(__name__)
Result = TypeVar("Result")


def retry_with_freed_memory(attempt: Callable[[], Result], free_memory: Callable[[], None]) -> Result:
    """What ``attempt`` gives. If the device has no memory left for it, it is tried once more after
    ``free_memory``, with nothing of the first attempt alive. Raises what the second attempt raises."""
    try:
        return attempt()
    except torch.OutOfMemoryError as error:
        log.warning("no memory is left on the device, the caches there are emptied: %s", error)
        traceback.clear_frames(error.__traceback__)  # they hold what the attempt had computed
    free_memory()
    return attempt()
