"""The functions between the layers of a network, by the names that `config.json` gives them."""

from torch import nn

# What encoders have. To ask transformers takes longer than to import torch, at each start and in each job.
USUAL = {"gelu": nn.GELU, "relu": nn.ReLU, "silu": nn.SiLU, "swish": nn.SiLU, "tanh": nn.Tanh}


def is_activation(name: str) -> bool:
    """Whether there is one of this name."""
    return name in USUAL or name in _all()


def activation(name: str) -> nn.Module:
    """The one of this name; KeyError if there is none."""
    made: nn.Module = USUAL[name]() if name in USUAL else _all()[name]
    return made


def _all() -> "dict[str, nn.Module]":
    from transformers.activations import ACT2FN

    return ACT2FN
