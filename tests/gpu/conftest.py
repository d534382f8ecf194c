"""Tests that need a GPU. Each runs on a CPU, too: what fails on a GPU alone is its path's fault."""

import pytest
import torch


@pytest.fixture(scope="session", params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> torch.device:
    """The CPU, and the first GPU."""
    return torch.device(request.param)
