"""The shape of an encoder, in the same words for every family of models."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from inference.hplm.errors import HplmError


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """An encoder with learned absolute positions and post-normalised layers.

    embedding: width of its embeddings (projected to `hidden` where they differ); positions: rows of the
    position table, of which a text uses those from `position_offset` on; types: rows of the token type table
    (0: it has none).
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
        if self.longest < 1:
            raise HplmError("unsupported_checkpoint", "config.json: there is no position for any token")
        if self.hidden % self.heads:
            raise HplmError(
                "unsupported_checkpoint",
                f"config.json: a hidden size of {self.hidden} cannot be shared by {self.heads} heads",
            )
        if not is_known_activation(self.activation):
            raise HplmError("unsupported_checkpoint", f"config.json: unknown activation {self.activation!r}")

    @property
    def longest(self) -> int:
        """The most tokens a text can have."""
        return self.positions - self.position_offset

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> "Architecture":
        """What `to_json` gave; HplmError(corrupt_artifact) for absent or unknown fields."""
        try:
            return cls(**raw)
        except TypeError as error:
            raise HplmError("corrupt_artifact", f"architecture: {error}") from error


# What encoders have. To ask transformers takes longer than to import torch, at each start and in each job.
_COMMON_ACTIVATIONS = {"gelu": nn.GELU, "relu": nn.ReLU, "silu": nn.SiLU, "swish": nn.SiLU, "tanh": nn.Tanh}


def is_known_activation(name: str) -> bool:
    """Whether there is one of this name."""
    return name in _COMMON_ACTIVATIONS or name in _transformers_activations()


def make_activation(name: str) -> nn.Module:
    """The one of this name; KeyError if there is none."""
    made: nn.Module = (
        _COMMON_ACTIVATIONS[name]() if name in _COMMON_ACTIVATIONS else _transformers_activations()[name]
    )
    return made


def _transformers_activations() -> "dict[str, nn.Module]":
    from transformers.activations import ACT2FN

    return ACT2FN
