"""Which GPUs this process sees. Nothing here uses CUDA, which reads the choice once, when it starts."""

import os
import re
from pathlib import Path
from typing import Final

from inference.errors import HplmError

DEVICE_NAME: Final = re.compile(r"auto|cpu|cuda(?::(?P<gpu>\d+|(?:GPU|MIG)-[\w/-]+))?")
"""What HMI_DEVICE may be. A GPU is named by its index in `nvidia-smi`, or by its UUID or its beginning."""
VISIBLE_GPUS: Final = "CUDA_VISIBLE_DEVICES"
GPU_ORDER: Final = "CUDA_DEVICE_ORDER"
DRIVER_FILE = Path("/proc/driver/nvidia/version")
DEVICE_FOLDER = Path("/dev")
_VERSION: Final = re.compile(r"\s(\d{3,}(?:\.\d+)+)\s")

_visible_at_start = os.environ.get(VISIBLE_GPUS)


def show_one_gpu(name: str) -> None:
    """Hide all GPUs from this process but the one that the device `name` names, or else the first.

    Triton, and PyTorch where no device is named, use the current GPU of each thread: the first visible one.
    An index counts those of CUDA_VISIBLE_DEVICES if that was set at the start, else those of `nvidia-smi`.
    Call it before anything uses CUDA. Raises HplmError(invalid_field) if CUDA_VISIBLE_DEVICES lists too few.
    """
    found = DEVICE_NAME.fullmatch(name)
    gpu = found["gpu"] if found else None
    if gpu is not None and not gpu.isdigit():
        os.environ[VISIBLE_GPUS] = gpu
    elif _visible_at_start is None:
        os.environ[VISIBLE_GPUS] = gpu or "0"
        if gpu is not None:
            os.environ[GPU_ORDER] = "PCI_BUS_ID"  # that of nvidia-smi; by itself CUDA begins with the fastest
    else:
        listed, index = _visible_at_start.split(","), int(gpu or 0)
        if index >= len(listed):
            raise HplmError(
                "invalid_field", f"device {name!r} does not exist: {VISIBLE_GPUS} is {_visible_at_start!r}"
            )
        os.environ[VISIBLE_GPUS] = listed[index].strip()


def has_gpu() -> bool:
    """Whether this machine shows an NVIDIA GPU to this process, usable or not."""
    return _visible_at_start not in {"", "-1"} and any(DEVICE_FOLDER.glob("nvidia[0-9]*"))


def driver_version() -> str:
    """The version of the loaded NVIDIA driver, or "missing"."""
    try:
        found = _VERSION.search(DRIVER_FILE.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return "missing"
    return found[1] if found else "unknown"
