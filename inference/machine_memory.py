"""The memory of the machine. The standard library only."""

import os
from pathlib import Path
from typing import Final

CGROUP_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")


def machine_bytes() -> int:
    """The memory of the machine, or of the container if it may take less."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(machine, int(CGROUP_LIMIT.read_text()))
    except (OSError, ValueError):  # no cgroup v2, or no limit ("max")
        return machine
