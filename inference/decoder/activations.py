"""Activation functions whose numbers do not depend on how many rows are computed together."""

import math
from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

Activation = Callable[[Tensor], Tensor]


def _invariant(fused: Activation, composed: Activation) -> Activation:
    """`fused`, but `composed` in inference on a CPU.

    A fused kernel computes the end of a tensor (or of a thread's share) with another exponential than its
    other elements, so a row's last bits depend on where it lies. The basic functions do not.
    """

    def activation(states: Tensor) -> Tensor:
        if states.device.type != "cpu" or torch.is_grad_enabled():
            return fused(states)
        return composed(states.float()).to(states.dtype)

    return activation


def _silu(states: Tensor) -> Tensor:
    return states / states.neg().exp_().add_(1.0)


def _gelu(states: Tensor) -> Tensor:
    return (states * math.sqrt(0.5)).erf_().add_(1.0).mul_(states).mul_(0.5)


def _gelu_tanh(states: Tensor) -> Tensor:
    inner = (states * states).mul_(0.044715).add_(1.0).mul_(states).mul_(math.sqrt(2 / math.pi))
    return inner.tanh_().add_(1.0).mul_(states).mul_(0.5)


_SILU = _invariant(functional.silu, _silu)
_GELU = _invariant(functional.gelu, _gelu)
_GELU_TANH = _invariant(lambda states: functional.gelu(states, approximate="tanh"), _gelu_tanh)
ACTIVATIONS: Final[dict[str, Activation]] = {
    "silu": _SILU,
    "swish": _SILU,
    "gelu": _GELU,
    "gelu_new": _GELU_TANH,
    "gelu_pytorch_tanh": _GELU_TANH,
    "relu": functional.relu,
}
"""By the names that a config.json has for them."""
