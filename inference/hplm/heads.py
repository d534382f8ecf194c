"""Output heads of hPLMs, and the batched application of many heads."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from inference.hplm.errors import HplmError

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
        """A copy on `device`, float32."""
        moved = {k: v.to(device, torch.float32, non_blocking=non_blocking) for k, v in self.tensors().items()}
        return Head.from_tensors(moved, self.pooling, self.activation)

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


@dataclass(frozen=True, slots=True)
class BatchedHeads:
    """The stacked heads of a batch, padded with zeros: weight [H, w, C], bias [H, 1, C], float32.

    widths, poolings: outputs and pooling of each head. row_index [B]: the head of each row. inners: the
    hidden layers by head.
    """

    weight: Tensor
    bias: Tensor
    widths: tuple[int, ...]
    poolings: tuple[Pooling, ...]
    row_index: tuple[int, ...]
    inners: Mapping[int, HeadLayer] = field(default_factory=dict)

    @classmethod
    def stack(cls, heads: Sequence[Head], row_index: Sequence[int]) -> "BatchedHeads":
        """Stack `heads`; row b of the batch uses `heads[row_index[b]]`."""
        widths = tuple(head.num_labels for head in heads)
        widest, inputs = max(widths), max(head.weight.shape[1] for head in heads)

        weight = heads[0].weight.new_zeros(len(heads), inputs, widest, dtype=torch.float32)
        bias = weight.new_zeros(len(heads), 1, widest)
        for at, head in enumerate(heads):
            weight[at, : head.weight.shape[1], : head.num_labels] = head.weight.T
            bias[at, 0, : head.num_labels] = head.bias
        poolings = tuple(head.pooling for head in heads)
        inners = {at: head.inner for at, head in enumerate(heads) if head.inner}
        return cls(weight, bias, widths, poolings, tuple(int(i) for i in row_index), inners)

    def to(self, device: torch.device) -> "BatchedHeads":
        """A copy on `device`."""
        inners = {
            at: replace(inner, weight=inner.weight.to(device), bias=inner.bias.to(device))
            for at, inner in self.inners.items()
        }
        return replace(self, weight=self.weight.to(device), bias=self.bias.to(device), inners=inners)

    def apply(self, hidden: Tensor, mask: Tensor) -> "BatchLogits":
        """The logits of all rows, on the device, from final states [B, T, d] and mask [B, T] bool."""
        per_token = [self.poolings[index] == "token" for index in self.row_index]
        texts = [b for b, token in enumerate(per_token) if not token]
        tokens = [b for b, token in enumerate(per_token) if token]
        widths = tuple(self.widths[index] for index in self.row_index)
        return BatchLogits(
            self._text_logits(hidden, mask, texts),
            self._token_logits(hidden, tokens),
            tuple(texts),
            tuple(tokens),
            widths,
        )

    def _text_logits(self, hidden: Tensor, mask: Tensor, rows: list[int]) -> Tensor:
        """Logits [Bc, 1, C] of the rows whose heads read one vector for the text."""
        at = torch.tensor(rows, dtype=torch.int64, device=hidden.device)
        if self.weight.shape[1] > hidden.shape[2]:
            features = pool(hidden.index_select(0, at), mask.index_select(0, at), "cls_mean")
        else:
            features = pool(hidden[:, :1].index_select(0, at), mask, "cls")
        return self._outputs(features[:, None], rows, self.weight)

    def _token_logits(self, hidden: Tensor, rows: list[int]) -> Tensor:
        """Logits [Bt, T, C] of the rows whose heads read each token."""
        at = torch.tensor(rows, dtype=torch.int64, device=hidden.device)
        states = hidden.index_select(0, at).float()
        return self._outputs(states, rows, self.weight[:, : hidden.shape[2]])

    def _outputs(self, features: Tensor, rows: list[int], weight: Tensor) -> Tensor:
        for number, inner in self.inners.items():
            features = _apply_inner(
                inner, features, [at for at, b in enumerate(rows) if self.row_index[b] == number]
            )
        heads = torch.tensor([self.row_index[b] for b in rows], dtype=torch.int64, device=features.device)
        return torch.baddbmm(self.bias.index_select(0, heads), features, weight.index_select(0, heads))


def _apply_inner(inner: HeadLayer, features: Tensor, rows: list[int]) -> Tensor:
    """Features [B, T, w], of which the first d of `rows` went through the hidden layer."""
    if not rows:
        return features
    at = torch.tensor(rows, dtype=torch.int64, device=features.device)
    mine, width = features.index_select(0, at), len(inner.bias)
    changed = torch.cat([inner.apply(mine[..., :width]), mine[..., width:]], dim=-1)
    return features.index_copy(0, at, changed)


@dataclass(frozen=True, slots=True)
class BatchLogits:
    """The logits of a batch: `texts` [Bc, 1, C] and `tokens` [Bt, T, C], with their rows of the batch."""

    texts: Tensor
    tokens: Tensor
    text_rows: tuple[int, ...]
    token_rows: tuple[int, ...]
    widths: tuple[int, ...]

    def rows(self, lengths: Sequence[int]) -> list[NDArray[np.float32]]:
        """The logits of each row without padding, [C] or [length, C]. Synchronizes with the device."""
        found: dict[int, NDArray[np.float32]] = {}
        texts, tokens = self.texts.detach().cpu().numpy(), self.tokens.detach().cpu().numpy()
        for at, row in enumerate(self.text_rows):
            found[row] = texts[at, 0, : self.widths[row]]
        for at, row in enumerate(self.token_rows):
            found[row] = tokens[at, : lengths[row], : self.widths[row]]
        return [found[row] for row in range(len(self.widths))]
