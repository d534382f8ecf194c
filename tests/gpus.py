"""Whether there is a GPU to test on, and why not."""

from functools import cache
from pathlib import Path

import pytest

DEVICE_FILES = ("nvidia[0-9]*", "kfd", "dxg")
"""Below /dev, where a driver is loaded: of NVIDIA, of AMD, of Windows's subsystem for Linux."""


@cache
def why_no_gpu() -> str:
    """Why no test can use a GPU; empty where PyTorch finds one. Without a driver PyTorch is not imported,
    which takes seconds."""
    if not any(path for pattern in DEVICE_FILES for path in Path("/dev").glob(pattern)):
        return "needs a GPU, and this machine has none (or no driver for it)"
    import torch

    if not torch.cuda.is_available():
        return (
            f"needs a GPU, and PyTorch {torch.__version__} cannot use this machine's: see docs/operations.md"
        )
    return ""


needs_triton_interpreter = pytest.mark.skipif(
    not why_no_gpu(), reason="Triton compiles its kernels where there is a GPU: see tests/gpu"
)
"""For tests that run Triton's kernels on tensors of the CPU."""
