"""How many processors this installation may use, and who gets them."""

import math
import os
from pathlib import Path

CGROUP_QUOTA = Path("/sys/fs/cgroup/cpu.max")
FEW = 2


def usable_cpus() -> int:
    """Processors this process may run on, not more than a container's quota."""
    allowed = len(os.sched_getaffinity(0))
    try:
        quota, period = CGROUP_QUOTA.read_text(encoding="ascii").split()
        return max(1, min(allowed, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):  # no such file, or "max"
        return allowed


def training_threads(asked: int) -> int:
    """Threads for training: as asked, or all but one processor (both of two; it runs at a low priority)."""
    cpus = usable_cpus()
    return asked or (cpus if cpus <= FEW else cpus - 1)
