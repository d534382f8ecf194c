"""Output heads of hPLMs, and the batched application of many heads."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from inference.errors import HplmError
from inference.hplm.sequences import PackedSequences

Pooling = Literal["cls", "cls_mean", "token"]
POOLINGS: Final[tuple[Pooling, ...]] = ("cls", "cls_mean", "token")
Activation = Literal["tanh", "relu", "gelu"]
ACTIVATIONS: Final[Mapping[str, Callable[[Tensor], Tensor]]] = {
    "tanh": torch.tanh,
    "relu": functional.relu,
    "gelu": functional.gelu,
}


@dataclass(frozen=True, slots=True)
class HeadLayer:
    """A hidden layer, which imported heads have: weight [d, d], bias [d], and an activation."""

    weight: Tensor
    bias: Tensor
    activation: Activation

    def __post_init__(self) -> None:
        width = self.bias.shape[0] if self.bias.dim() == 1 else 0
        if not width or tuple(self.weight.shape) != (width, width):
            shapes = f"{tuple(self.weight.shape)} and {tuple(self.bias.shape)}"
            raise HplmError("corrupt_artifact", f"head: inner shapes {shapes} are not [d, d] and [d]")
        if self.activation not in ACTIVATIONS:
            raise HplmError("corrupt_artifact", f"head: activation {self.activation!r} is not known")

    def apply(self, features: Tensor) -> Tensor:
        """Features [..., d] after the layer, of features [..., d]."""
        return ACTIVATIONS[self.activation](functional.linear(features, self.weight, self.bias))


@dataclass(frozen=True, slots=True)
class Head:
    """A linear layer with C outputs: weight [C, w] and bias [C]. It always computes in float32.

    pooling: its input. "cls": the state of the first token, w = d. "cls_mean": that and the mean over all
    tokens, w = 2d. "token": the state of each token, w = d. inner: a hidden layer before the outputs.
    """

    weight: Tensor
    bias: Tensor
    pooling: Pooling = "cls"
    inner: HeadLayer | None = None

    def __post_init__(self) -> None:
        if self.weight.dim() != 2 or tuple(self.bias.shape) != (self.weight.shape[0],):
            shapes = f"{tuple(self.weight.shape)} and {tuple(self.bias.shape)}"
            raise HplmError("corrupt_artifact", f"head: shapes {shapes} are not [C, w] and [C]")
        if self.pooling not in POOLINGS:
            raise HplmError("corrupt_artifact", f"head: pooling {self.pooling!r} is not known")
        if self.inner and (self.pooling == "cls_mean" or len(self.inner.bias) != self.weight.shape[1]):
            raise HplmError("corrupt_artifact", "head: its inner layer does not fit its outputs")

    @classmethod
    def initial(
        cls,
        num_labels: int,
        hidden: int,
        *,
        pooling: Pooling = "cls",
        generator: torch.Generator | None = None,
    ) -> "Head":
        """A head with small random weights and zero bias."""
        width = 2 * hidden if pooling == "cls_mean" else hidden
        weight = torch.randn(num_labels, width, generator=generator) * 0.02
        return cls(weight, torch.zeros(num_labels), pooling)

    @property
    def num_labels(self) -> int:
        """The number of outputs."""
        return self.weight.shape[0]

    @property
    def hidden(self) -> int:
        """The hidden size d of its input."""
        return self.weight.shape[1] // (2 if self.pooling == "cls_mean" else 1)

    def tensors(self) -> dict[str, Tensor]:
        """The parameters by name."""
        inner = {"inner_weight": self.inner.weight, "inner_bias": self.inner.bias} if self.inner else {}
        return {"weight": self.weight, "bias": self.bias} | inner

    @classmethod
    def from_tensors(
        cls, tensors: Mapping[str, Tensor], pooling: Pooling = "cls", activation: Activation | None = None
    ) -> "Head":
        """The inverse of `tensors`. activation: that of the hidden layer, if there is one.

        Raises HplmError(corrupt_artifact) if a tensor is missing or has a wrong shape.
        """
        expected = {"weight", "bias"} | ({"inner_weight", "inner_bias"} if activation else set())
        if expected - tensors.keys():
            raise HplmError("corrupt_artifact", "the head lacks its weight or its bias")
        inner = HeadLayer(tensors["inner_weight"], tensors["inner_bias"], activation) if activation else None
        return cls(tensors["weight"], tensors["bias"], pooling, inner)

    @property
    def activation(self) -> Activation | None:
        """The activation of the hidden layer, if there is one."""
        return self.inner.activation if self.inner else None

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> "Head":
        """The head on `device` in float32: itself if it is there, else a copy."""
        there = torch.device(device).type, torch.float32
        if all((value.device.type, value.dtype) == there for value in self.tensors().values()):
            return self
        return self.moved(lambda value: value.to(device, torch.float32, non_blocking=non_blocking))

    def moved(self, move: Callable[[Tensor], Tensor]) -> "Head":
        """The head with what ``move`` gives for each of its tensors."""
        tensors = {name: move(value) for name, value in self.tensors().items()}
        return Head.from_tensors(tensors, self.pooling, self.activation)

    def apply(self, features: Tensor) -> Tensor:
        """Logits [..., C] float32 of pooled features [..., w]; see `pool`."""
        inputs = self.inner.apply(features.float()) if self.inner else features.float()
        return functional.linear(inputs, self.weight, self.bias)


def pool(hidden: Tensor, mask: Tensor, pooling: Pooling) -> Tensor:
    """Pooled features [B, w] float32 of final states [B, T, d]; for "token" the states [B, T, d].

    mask [B, T] bool: true for a token.
    """
    if pooling == "token":
        return hidden.float()
    first = hidden[:, 0].float()
    return first if pooling == "cls" else torch.cat([first, _token_mean(hidden, mask)], dim=-1)


def _token_mean(hidden: Tensor, mask: Tensor) -> Tensor:
    # States of padding may be NaN.
    kept = hidden.masked_fill(~mask[:, :, None], 0)
    return kept.sum(1, dtype=torch.float32) / mask.sum(1, keepdim=True)


def apply_heads(
    heads: Sequence[Head], hidden: Tensor, sequences: PackedSequences
) -> list[NDArray[np.float32]]:
    """The outputs of each packed sequence, from final states [N, d], by its own head: [C] of a text, [T, C]
    of its tokens. Waits for the device."""
    return read_back(head_outputs(heads, hidden, sequences))


def read_back(tensors: Sequence[Tensor]) -> list[NDArray[np.float32]]:
    """Tensors of a device, float32, as arrays: with one copy, for which it waits."""
    if not tensors:
        return []
    flat = torch.cat([tensor.flatten() for tensor in tensors]).cpu()
    parts = torch.split(flat, [tensor.numel() for tensor in tensors])
    return [part.view(tensor.shape).numpy() for part, tensor in zip(parts, tensors, strict=True)]


def head_outputs(heads: Sequence[Head], hidden: Tensor, sequences: PackedSequences) -> list[Tensor]:
    """As `apply_heads`, on the device of the states. Neighbours that share a head are computed together."""
    outputs: list[Tensor] = []
    row = 0
    for _, group in groupby(heads, key=id):
        head, *others = group
        count = 1 + len(others)
        features = [_features(hidden[begin:end], head.pooling) for begin, end in sequences.bounds(row, count)]
        together = head.to(hidden.device).apply(torch.cat(features))
        outputs += torch.split(together, [len(part) for part in features])
        row += count
    return [
        output if head.pooling == "token" else output[0] for head, output in zip(heads, outputs, strict=True)
    ]


def _features(hidden: Tensor, pooling: Pooling) -> Tensor:
    """What a head reads of one sequence's final states [T, d], fp32: [1, w], or [T, d] for "token"."""
    if pooling == "token":
        return hidden.float()
    first = hidden[:1].float()
    return first if pooling == "cls" else torch.cat([first, mean_state(hidden)[None]], dim=-1)


def mean_state(hidden: Tensor) -> Tensor:
    """The mean [d] fp32 of a sequence's final states [T, d]."""
    return hidden.mean(0, dtype=torch.float32)
