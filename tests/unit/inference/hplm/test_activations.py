"""Functions between layers, by their published names."""

import pytest
import torch
from transformers.activations import ACT2FN

from inference.hplm.architecture import _COMMON_ACTIVATIONS, is_known_activation, make_activation


@pytest.mark.parametrize("name", [*_COMMON_ACTIVATIONS, "gelu_new"])
def test_one_of_a_published_name_is_that_of_transformers(name: str) -> None:
    numbers = torch.linspace(-6, 6, 500)
    assert is_known_activation(name)
    assert torch.equal(make_activation(name)(numbers), ACT2FN[name](numbers))


def test_a_name_that_nobody_knows_is_none() -> None:
    assert not is_known_activation("nothing")
    with pytest.raises(KeyError):
        make_activation("nothing")
