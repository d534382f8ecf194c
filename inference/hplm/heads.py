"""Output heads: one linear layer per hPLM, and those of a batch applied together."""

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
    """The layer that heads trained elsewhere have before their outputs: weight [d, d], bias [d], then an
    activation."""

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
        """[..., d] to [..., d]."""
        return ACTIVATIONS[self.activation](functional.linear(features, self.weight, self.bias))


@dataclass(frozen=True, slots=True)
class Head:
    """weight [C, w], bias [C]; C outputs. Computed in fp32 whatever the layers use: it costs nothing and
    ranks labels.

    pooling: what it reads. "cls": the state of the first token, w = d; "cls_mean": that and the mean over
    all tokens, w = 2d; "token": the state of every token, w = d. inner: a layer between that and the
    outputs, which heads trained here do not have.
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
        labels: int,
        hidden: int,
        *,
        pooling: Pooling = "cls",
        generator: torch.Generator | None = None,
    ) -> "Head":
        """Small normal weights, no bias."""
        width = 2 * hidden if pooling == "cls_mean" else hidden
        weight = torch.randn(labels, width, generator=generator) * 0.02
        return cls(weight, torch.zeros(labels), pooling)

    @property
    def labels(self) -> int:
        return self.weight.shape[0]

    @property
    def hidden(self) -> int:
        """The width d of the states it reads."""
        return self.weight.shape[1] // (2 if self.pooling == "cls_mean" else 1)

    def tensors(self) -> dict[str, Tensor]:
        """Its tensors by name; also what an optimiser is given."""
        inner = {"inner_weight": self.inner.weight, "inner_bias": self.inner.bias} if self.inner else {}
        return {"weight": self.weight, "bias": self.bias} | inner

    @classmethod
    def from_tensors(
        cls, tensors: Mapping[str, Tensor], pooling: Pooling = "cls", activation: Activation | None = None
    ) -> "Head":
        """The inverse of `tensors`, `activation` being that of its inner layer; HplmError(corrupt_artifact)
        when one is absent or misshapen."""
        expected = {"weight", "bias"} | ({"inner_weight", "inner_bias"} if activation else set())
        if expected - tensors.keys():
            raise HplmError("corrupt_artifact", "the head lacks its weight or its bias")
        inner = HeadLayer(tensors["inner_weight"], tensors["inner_bias"], activation) if activation else None
        return cls(tensors["weight"], tensors["bias"], pooling, inner)

    @property
    def activation(self) -> Activation | None:
        """That of its inner layer, if it has one."""
        return self.inner.activation if self.inner else None

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> "Head":
        """A copy there, fp32."""
        moved = {k: v.to(device, torch.float32, non_blocking=non_blocking) for k, v in self.tensors().items()}
        return Head.from_tensors(moved, self.pooling, self.activation)

    def apply(self, features: Tensor) -> Tensor:
        """Outputs [..., C] fp32 of what it reads [..., w] (see `pool`)."""
        read = self.inner.apply(features.float()) if self.inner else features.float()
        return functional.linear(read, self.weight, self.bias)


def pool(hidden: Tensor, mask: Tensor, pooling: Pooling) -> Tensor:
    """What a head reads of final states [B, T, d], fp32: [B, w], or for "token" the states as they are.
    mask [B, T] bool says where a token is."""
    if pooling == "token":
        return hidden.float()
    first = hidden[:, 0].float()
    return first if pooling == "cls" else torch.cat([first, _token_mean(hidden, mask)], dim=-1)


def _token_mean(hidden: Tensor, mask: Tensor) -> Tensor:
    # Where no token is, nothing is promised of a state, not even that it is finite.
    kept = hidden.masked_fill(~mask[:, :, None], 0)
    return kept.sum(1, dtype=torch.float32) / mask.sum(1, keepdim=True)


@dataclass(frozen=True, slots=True)
class BatchedHeads:
    """Heads side by side, narrower ones padded with zeros: weight [H, w, C], bias [H, 1, C]; labels and
    pooling per head. `row_index` [B] says which head a row uses, `inners` which heads have a layer more."""

    weight: Tensor
    bias: Tensor
    widths: tuple[int, ...]
    poolings: tuple[Pooling, ...]
    row_index: tuple[int, ...]
    inners: Mapping[int, HeadLayer] = field(default_factory=dict)

    @classmethod
    def stack(cls, heads: Sequence[Head], row_index: Sequence[int]) -> "BatchedHeads":
        """Put `heads` side by side; row b uses `heads[row_index[b]]`."""
        widths = tuple(head.labels for head in heads)
        widest, inputs = max(widths), max(head.weight.shape[1] for head in heads)

        weight = heads[0].weight.new_zeros(len(heads), inputs, widest, dtype=torch.float32)
        bias = weight.new_zeros(len(heads), 1, widest)
        for at, head in enumerate(heads):
            weight[at, : head.weight.shape[1], : head.labels] = head.weight.T
            bias[at, 0, : head.labels] = head.bias
        poolings = tuple(head.pooling for head in heads)
        inners = {at: head.inner for at, head in enumerate(heads) if head.inner}
        return cls(weight, bias, widths, poolings, tuple(int(i) for i in row_index), inners)

    def to(self, device: torch.device) -> "BatchedHeads":
        """These heads there."""
        inners = {
            at: replace(inner, weight=inner.weight.to(device), bias=inner.bias.to(device))
            for at, inner in self.inners.items()
        }
        return replace(self, weight=self.weight.to(device), bias=self.bias.to(device), inners=inners)

    def apply(self, hidden: Tensor, mask: Tensor) -> "BatchLogits":
        """Outputs of every row from final states [B, T, d], mask [B, T]; stays on the device."""
        per_token = [self.poolings[index] == "token" for index in self.row_index]
        texts = [b for b, token in enumerate(per_token) if not token]
        tokens = [b for b, token in enumerate(per_token) if token]
        widths = tuple(self.widths[index] for index in self.row_index)
        return BatchLogits(
            self._of_texts(hidden, mask, texts),
            self._of_tokens(hidden, tokens),
            tuple(texts),
            tuple(tokens),
            widths,
        )

    def _of_texts(self, hidden: Tensor, mask: Tensor, rows: list[int]) -> Tensor:
        """[Bc, 1, C] of the rows whose heads read one vector of the text."""
        at = torch.tensor(rows, dtype=torch.int64, device=hidden.device)
        if self.weight.shape[1] > hidden.shape[2]:
            features = pool(hidden.index_select(0, at), mask.index_select(0, at), "cls_mean")
        else:
            features = pool(hidden[:, :1].index_select(0, at), mask, "cls")
        return self._outputs(features[:, None], rows, self.weight)

    def _of_tokens(self, hidden: Tensor, rows: list[int]) -> Tensor:
        """[Bt, T, C] of the rows whose heads read every token."""
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
    """The features [B, T, w], those of `rows` behind a layer that reads the first d of them."""
    if not rows:
        return features
    at = torch.tensor(rows, dtype=torch.int64, device=features.device)
    mine, width = features.index_select(0, at), len(inner.bias)
    changed = torch.cat([inner.apply(mine[..., :width]), mine[..., width:]], dim=-1)
    return features.index_copy(0, at, changed)


@dataclass(frozen=True, slots=True)
class BatchLogits:
    """A batch's outputs: `texts` [Bc, 1, C] and `tokens` [Bt, T, C], with the batch rows they belong to."""

    texts: Tensor
    tokens: Tensor
    text_rows: tuple[int, ...]
    token_rows: tuple[int, ...]
    widths: tuple[int, ...]

    def rows(self, lengths: Sequence[int]) -> list[NDArray[np.float32]]:
        """Per batch row, without padding: [C] of a text, [length, C] of its tokens. Waits for the device."""
        found: dict[int, NDArray[np.float32]] = {}
        texts, tokens = self.texts.detach().cpu().numpy(), self.tokens.detach().cpu().numpy()
        for at, row in enumerate(self.text_rows):
            found[row] = texts[at, 0, : self.widths[row]]
        for at, row in enumerate(self.token_rows):
            found[row] = tokens[at, : lengths[row], : self.widths[row]]
        return [found[row] for row in range(len(self.widths))]
