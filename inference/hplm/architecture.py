"""The hyperparameters of an encoder, with the same names for all model families."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from inference.errors import HplmError


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """An encoder with learned absolute positions and post-layer-norm blocks.

    vocab: size of the vocabulary. hidden: hidden size. inner: size of the feed-forward block. embedding:
    embedding size, projected to `hidden` if they differ. positions: rows of the position embedding; a text
    starts at row `position_offset`. types: rows of the token type embedding (0: there is none).
    """

    family: str
    vocab: int
    hidden: int
    inner: int
    layers: int
    heads: int
    positions: int
    activation: str
    eps: float
    embedding: int
    position_offset: int = 0
    types: int = 0

    def __post_init__(self) -> None:
        for name in ("vocab", "hidden", "inner", "layers", "heads", "embedding"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise HplmError("unsupported_checkpoint", f"config.json: {name} must be a positive number")
        if self.max_length < 1:
            raise HplmError("unsupported_checkpoint", "config.json: it has no position embeddings")
        if self.hidden % self.heads:
            raise HplmError(
                "unsupported_checkpoint",
                f"config.json: the hidden size {self.hidden} is not divisible by the {self.heads} heads",
            )
        if not is_known_activation(self.activation):
            raise HplmError("unsupported_checkpoint", f"config.json: unknown activation {self.activation!r}")

    @property
    def head_size(self) -> int:
        """The width of an attention head."""
        return self.hidden // self.heads

    @property
    def max_length(self) -> int:
        """The maximum number of tokens of a text."""
        return self.positions - self.position_offset

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> "Architecture":
        """The inverse of `to_json`. Raises HplmError(corrupt_artifact) for missing or unknown fields."""
        try:
            return cls(**raw)
        except TypeError as error:
            raise HplmError("corrupt_artifact", f"architecture: {error}") from error


# The usual ones. Importing transformers takes longer than importing torch.
_COMMON_ACTIVATIONS = {"gelu": nn.GELU, "relu": nn.ReLU, "silu": nn.SiLU, "swish": nn.SiLU, "tanh": nn.Tanh}


def is_known_activation(name: str) -> bool:
    """Whether the activation function exists."""
    return name in _COMMON_ACTIVATIONS or name in _transformers_activations()


def make_activation(name: str) -> nn.Module:
    """The activation function of this name. Raises KeyError."""
    activation: nn.Module = (
        _COMMON_ACTIVATIONS[name]() if name in _COMMON_ACTIVATIONS else _transformers_activations()[name]
    )
    return activation


def _transformers_activations() -> "dict[str, nn.Module]":
    from transformers.activations import ACT2FN

    return ACT2FN
