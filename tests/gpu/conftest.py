"""Tests that need a GPU. Each runs on a CPU, too: what fails on a GPU alone is its path's fault."""

import pytest
import torch

from inference.hplm.devices import has_native_bfloat16


@pytest.fixture(scope="session", params=["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> torch.device:
    """The CPU, and the first GPU."""
    return torch.device(request.param)


@pytest.fixture(params=[torch.float32, torch.float16, torch.bfloat16], ids=str)
def dtype(request: pytest.FixtureRequest, device: torch.device) -> torch.dtype:
    """Each number format that the device has; a CPU emulates what it has not."""
    found: torch.dtype = request.param
    if found == torch.bfloat16 and device.type == "cuda" and not has_native_bfloat16(device):
        pytest.skip("this GPU has no bfloat16")
    return found
