"""Which errors say that the device is lost."""

from contextlib import nullcontext

import pytest
import torch

from inference.device_errors import raise_if_device_lost
from inference.errors import DeviceLostError, HplmError


def out_of_memory_elsewhere() -> torch.AcceleratorError:
    """As raised for memory that is not PyTorch's, such as pinned buffers."""
    return torch.AcceleratorError("CUDA error: out of memory")


@pytest.mark.parametrize(
    ("error", "is_lost"),
    [
        (torch.AcceleratorError("CUDA error: an illegal memory access was encountered"), True),
        (DeviceLostError("found by somebody else"), True),
        (torch.OutOfMemoryError("CUDA out of memory"), False),
        (out_of_memory_elsewhere(), False),
        (HplmError("corrupt_artifact", "it is damaged"), False),
        (RuntimeError("shapes do not fit"), False),
    ],
)
def test_a_device_is_lost_by_any_error_of_its_own_but_missing_memory(error: Exception, is_lost: bool) -> None:
    with pytest.raises(DeviceLostError, match=str(error)) if is_lost else nullcontext():
        raise_if_device_lost(error)
