"""Random checkpoints of every family and flag compute here what their own library computes, at every length,
alone and packed with others."""

from pathlib import Path

import pytest
import torch

from tests.unit.family_parity import FLAGS, states


@pytest.mark.parametrize("name", FLAGS)
def test_states_are_those_of_the_original_at_every_length(name: str, tmp_path: Path) -> None:
    for found, wanted in states(name, tmp_path):
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)
