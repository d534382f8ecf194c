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

Pooling = Literal["cls", "mean", "cls_mean", "token", "cut_last", "token_cut_last"]


@dataclass(frozen=True, slots=True)
class Reading:
    """What a head reads. states: vectors of the hidden size. per_token: of each token, or of the whole text.
    cut: whether the states at the cut are among them."""

    states: int
    per_token: bool = False
    cut: bool = False


POOLINGS: Final[Mapping[Pooling, Reading]] = {
    "cls": Reading(1),
    "mean": Reading(1),
    "cls_mean": Reading(2),
    "token": Reading(1, per_token=True),
    "cut_last": Reading(4, cut=True),
    "token_cut_last": Reading(2, per_token=True, cut=True),
}
Activation = Literal["tanh", "relu", "gelu"]
ACTIVATIONS: Final[Mapping[str, Callable[[Tensor], Tensor]]] = {
    "tanh": torch.tanh,
    "relu": functional.relu,
    "gelu": functional.gelu,
}
INNER_NORM: Final = ("inner_norm_weight", "inner_norm_bias")
INNER_NORM_EPS: Final = 1e-5


@dataclass(frozen=True, slots=True)
class HeadLayer:
    """A hidden layer, which heads trained elsewhere have: weight [d, d], bias [d], and an activation. norm:
    weight and bias [d] of a layer norm behind the activation, if there is one."""

    weight: Tensor
    bias: Tensor
    activation: Activation
    norm: tuple[Tensor, Tensor] | None = None

    def __post_init__(self) -> None:
        width = self.bias.shape[0] if self.bias.dim() == 1 else 0
        if not width or tuple(self.weight.shape) != (width, width):
            shapes = f"{tuple(self.weight.shape)} and {tuple(self.bias.shape)}"
            raise HplmError("corrupt_artifact", f"head: inner shapes {shapes} are not [d, d] and [d]")
        if any(tuple(part.shape) != (width,) for part in self.norm or ()):
            raise HplmError("corrupt_artifact", f"head: the norm of its inner layer is not {width} wide")
        if self.activation not in ACTIVATIONS:
            raise HplmError("corrupt_artifact", f"head: activation {self.activation!r} is not known")

    def tensors(self) -> dict[str, Tensor]:
        """The parameters by name."""
        norm = {} if self.norm is None else dict(zip(INNER_NORM, self.norm, strict=True))
        return {"inner_weight": self.weight, "inner_bias": self.bias} | norm

    def apply(self, features: Tensor) -> Tensor:
        """Features [..., d] after the layer, of features [..., d]."""
        activated = ACTIVATIONS[self.activation](functional.linear(features, self.weight, self.bias))
        if self.norm is None:
            return activated
        return functional.layer_norm(activated, self.bias.shape, *self.norm, INNER_NORM_EPS)


@dataclass(frozen=True, slots=True)
class Head:
    """A linear layer with C outputs: weight [C, w] and bias [C]. It always computes in float32.

    pooling: its input. "cls": the final state of the first token, w = d. "mean": the mean over all tokens,
    w = d. "cls_mean": both, w = 2d. "token": the final state of each token, w = d. "cut_last": the mean and
    the maximum of the states at the cut and of the final states, w = 4d. "token_cut_last": both states of
    each token, w = 2d. inner: a hidden layer before the outputs.
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
        if self.weight.shape[1] % self.reading.states:
            raise HplmError(
                "corrupt_artifact", f"head: {self.pooling} does not give {self.weight.shape[1]} inputs"
            )
        if self.inner and (self.reading.states > 1 or len(self.inner.bias) != self.weight.shape[1]):
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
        weight = torch.randn(num_labels, POOLINGS[pooling].states * hidden, generator=generator) * 0.02
        return cls(weight, torch.zeros(num_labels), pooling)

    @property
    def reading(self) -> Reading:
        """What it reads."""
        return POOLINGS[self.pooling]

    @property
    def num_labels(self) -> int:
        """The number of outputs."""
        return self.weight.shape[0]

    @property
    def hidden(self) -> int:
        """The hidden size d of its input."""
        return self.weight.shape[1] // self.reading.states

    def tensors(self) -> dict[str, Tensor]:
        """The parameters by name."""
        return {"weight": self.weight, "bias": self.bias} | (self.inner.tensors() if self.inner else {})

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
        inner = None
        if activation:
            norm = (
                (tensors[INNER_NORM[0]], tensors[INNER_NORM[1]])
                if tensors.keys() >= set(INNER_NORM)
                else None
            )
            inner = HeadLayer(tensors["inner_weight"], tensors["inner_bias"], activation, norm)
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


def pool(last: Tensor, mask: Tensor, pooling: Pooling, cut: Tensor) -> Tensor:
    """Pooled features [B, w] float32, or [B, T, w] of tokens, of final states and states at the cut, both
    [B, T, d].

    mask [B, T] bool: true for a token.
    """
    match pooling:
        case "token":
            return last.float()
        case "token_cut_last":
            return torch.cat([cut.float(), last.float()], dim=-1)
        case "cut_last":
            return torch.cat([part for states in (cut, last) for part in _mean_and_max(states, mask)], dim=-1)
        case "mean":
            return _token_mean(last, mask)
    first = last[:, 0].float()
    return first if pooling == "cls" else torch.cat([first, _token_mean(last, mask)], dim=-1)


def _mean_and_max(hidden: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    largest = hidden.float().masked_fill(~mask[:, :, None], -torch.inf).amax(1)
    return _token_mean(hidden, mask), largest


def _token_mean(hidden: Tensor, mask: Tensor) -> Tensor:
    # States of padding may be NaN.
    kept = hidden.masked_fill(~mask[:, :, None], 0)
    return kept.sum(1, dtype=torch.float32) / mask.sum(1, keepdim=True)


def apply_heads(
    heads: Sequence[Head], last: Tensor, sequences: PackedSequences, cut: Tensor
) -> list[NDArray[np.float32]]:
    """The outputs of each packed sequence, from final states and states at the cut [N, d], by its own head:
    [C] of a text, [T, C] of its tokens. Waits for the device."""
    return read_back(head_outputs(heads, last, sequences, cut))


def read_back(tensors: Sequence[Tensor]) -> list[NDArray[np.float32]]:
    """Tensors of a device, float32, as arrays: with one copy, for which it waits."""
    if not tensors:
        return []
    flat = torch.cat([tensor.flatten() for tensor in tensors]).cpu()
    parts = torch.split(flat, [tensor.numel() for tensor in tensors])
    return [part.view(tensor.shape).numpy() for part, tensor in zip(parts, tensors, strict=True)]


def head_outputs(
    heads: Sequence[Head], last: Tensor, sequences: PackedSequences, cut: Tensor
) -> list[Tensor]:
    """As `apply_heads`, on the device of the states. Neighbours that share a head are computed together."""
    outputs: list[Tensor] = []
    row = 0
    for _, group in groupby(heads, key=id):
        head, *others = group
        count = 1 + len(others)
        features = [
            _features(last[begin:end], cut[begin:end], head.pooling)
            for begin, end in sequences.bounds(row, count)
        ]
        together = head.to(last.device).apply(torch.cat(features))
        outputs += torch.split(together, [len(part) for part in features])
        row += count
    return [
        output if head.reading.per_token else output[0] for head, output in zip(heads, outputs, strict=True)
    ]


def _features(last: Tensor, cut: Tensor, pooling: Pooling) -> Tensor:
    """What a head reads of one sequence's states [T, d], fp32: [1, w], or [T, w] of tokens."""
    match pooling:
        case "token":
            return last.float()
        case "token_cut_last":
            return torch.cat([cut.float(), last.float()], dim=-1)
        case "cut_last":
            parts = [part for states in (cut, last) for part in (mean_state(states), states.amax(0).float())]
            return torch.cat(parts)[None]
        case "mean":
            return mean_state(last)[None]
    first = last[:1].float()
    return first if pooling == "cls" else torch.cat([first, mean_state(last)[None]], dim=-1)


def mean_state(hidden: Tensor) -> Tensor:
    """The mean [d] fp32 of a sequence's final states [T, d]."""
    return hidden.mean(0, dtype=torch.float32)
