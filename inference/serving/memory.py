"""How much memory the worker's process takes, and how full its device is."""

import os
import resource
from pathlib import Path
from typing import Final

import torch

CGROUP_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")


def host_bytes() -> int:
    """Of this process, what is in memory now; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * resource.getpagesize()


def machine_bytes() -> int:
    """The memory of the machine, or of the container if it may take less."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(machine, int(CGROUP_LIMIT.read_text()))
    except (OSError, ValueError):  # no cgroup v2, or no limit ("max")
        return machine


def device_bytes(device: torch.device) -> tuple[int, int]:
    """Used and in all, of the accelerator, whoever uses it; zeros of a CPU."""
    if device.type != "cuda":
        return 0, 0
    free, total = torch.cuda.mem_get_info(device)
    return total - free, total
