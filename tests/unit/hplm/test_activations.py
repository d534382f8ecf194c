"""Functions between layers, by their published names."""

import pytest
import torch
from transformers.activations import ACT2FN

from inference.hplm.architecture import USUAL, activation, is_activation


@pytest.mark.parametrize("name", [*USUAL, "gelu_new"])
def test_one_of_a_published_name_is_that_of_transformers(name: str) -> None:
    numbers = torch.linspace(-6, 6, 500)
    assert is_activation(name)
    assert torch.equal(activation(name)(numbers), ACT2FN[name](numbers))


def test_a_name_that_nobody_knows_is_none() -> None:
    assert not is_activation("nothing")
    with pytest.raises(KeyError):
        activation("nothing")
