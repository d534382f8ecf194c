"""The hyperparameters of an encoder, with the same names for all model families."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from inference.errors import HplmError
from inference.hplm.checkpoint_config import check_sizes, head_size_of
from inference.hplm.relative_positions import RelativePositions


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """An encoder: which parts its layers are made of, and their sizes.

    vocab: size of the vocabulary. hidden: hidden size. inner: size of the feed-forward block. embedding:
    embedding size, projected to `hidden` if they differ. positions: of the longest text, whose first token is
    at number `position_offset`. types: rows of the token type embedding (0: there is none).
    position_embeddings: whether a learned embedding of each position is part of the input. pre_norm: whether
    a block normalises what it reads, not what it gives; the first attention block then reads the embeddings
    as they are, and a last norm follows the last layer. gated: whether the feed-forward block multiplies its
    activations with a second map of its input. rotary: by layer, the base of its rotary positions (empty:
    none). windows: by layer, the tokens on each side that a token attends to, 0: all (empty: all in every
    layer). relative: the tables of relative positions that each layer has.
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
    position_embeddings: bool = True
    pre_norm: bool = False
    gated: bool = False
    rotary: tuple[float, ...] = ()
    windows: tuple[int, ...] = ()
    relative: RelativePositions | None = None

    def __post_init__(self) -> None:
        names = ("vocab", "hidden", "inner", "layers", "heads", "embedding", "positions")
        check_sizes({name: getattr(self, name) for name in names})
        for name in ("position_offset", "types"):
            if getattr(self, name) < 0:
                raise HplmError("unsupported_checkpoint", f"config.json: {name} must not be negative")
        if self.max_length < 1:
            raise HplmError("unsupported_checkpoint", "config.json: it has no position embeddings")
        head_size_of(self.hidden, self.heads)
        if not is_known_activation(self.activation):
            raise HplmError("unsupported_checkpoint", f"config.json: unknown activation {self.activation!r}")
        self._check_positions()

    def _check_positions(self) -> None:
        if self.rotary and (self.head_size % 2 or len(self.rotary) != self.layers):
            raise HplmError(
                "unsupported_checkpoint",
                f"config.json: rotary positions of {len(self.rotary)} layers in heads of {self.head_size}; "
                f"they need one base for each of the {self.layers} layers and an even size",
            )
        if not all(base > 0 and math.isfinite(base) for base in self.rotary):
            raise HplmError("unsupported_checkpoint", "config.json: rotary bases must be positive numbers")
        if self.windows and (len(self.windows) != self.layers or min(self.windows) < 0):
            raise HplmError(
                "unsupported_checkpoint", f"config.json: {self.layers} layers need as many attention windows"
            )

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
            parts = dict(raw)
            for name in ("rotary", "windows"):
                parts[name] = tuple(parts.get(name, ()))
            if relative := parts.get("relative"):
                parts["relative"] = RelativePositions(**{**relative, "parts": tuple(relative["parts"])})
            return cls(**parts)
        except (TypeError, KeyError) as error:
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
