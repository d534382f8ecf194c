"""The memory of the machine, and what does not fit in it."""

import os
from pathlib import Path
from typing import Final

from inference.errors import HplmError

CGROUP_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")


def machine_bytes() -> int:
    """The memory of the machine, or of the container if it may take less."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(machine, int(CGROUP_LIMIT.read_text()))
    except (OSError, ValueError):  # no cgroup v2, or no limit ("max")
        return machine


def check_weights_fit(size: int) -> None:
    """Raise HplmError(out_of_memory) if a checkpoint's weights have more bytes than the machine's memory."""
    if size > (memory := machine_bytes()):
        message = f"the weights have {size / 1e9:,.1f} GB; this machine's memory has {memory / 1e9:,.1f} GB"
        raise HplmError("out_of_memory", message)
