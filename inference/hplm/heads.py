"""Output heads: one linear layer per hPLM, and those of a batch applied together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from inference.hplm.errors import HplmError

Pooling = Literal["cls", "cls_mean", "token"]
POOLINGS: Final[tuple[Pooling, ...]] = ("cls", "cls_mean", "token")


@dataclass(frozen=True, slots=True)
class Head:
    """weight [C, w], bias [C]; C outputs. Computed in fp32 whatever the layers use: it costs nothing and
    ranks labels.

    pooling: what it reads. "cls": the state of the first token, w = d; "cls_mean": that and the mean over
    all tokens, w = 2d; "token": the state of every token, w = d.
    """

    weight: Tensor
    bias: Tensor
    pooling: Pooling = "cls"

    def __post_init__(self) -> None:
        if self.weight.dim() != 2 or tuple(self.bias.shape) != (self.weight.shape[0],):
            shapes = f"{tuple(self.weight.shape)} and {tuple(self.bias.shape)}"
            raise HplmError("corrupt_artifact", f"head: shapes {shapes} are not [C, w] and [C]")
        if self.pooling not in POOLINGS:
            raise HplmError("corrupt_artifact", f"head: pooling {self.pooling!r} is not known")

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
        """Both tensors by name; also what an optimiser is given."""
        return {"weight": self.weight, "bias": self.bias}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], pooling: Pooling = "cls") -> "Head":
        """The inverse of `tensors`; HplmError(corrupt_artifact) when one is absent or misshapen."""
        if "weight" not in tensors or "bias" not in tensors:
            raise HplmError("corrupt_artifact", "the head lacks its weight or its bias")
        return cls(tensors["weight"], tensors["bias"], pooling)

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> "Head":
        """A copy there, fp32."""
        moved = {k: v.to(device, torch.float32, non_blocking=non_blocking) for k, v in self.tensors().items()}
        return Head(**moved, pooling=self.pooling)

    def apply(self, features: Tensor) -> Tensor:
        """Outputs [..., C] fp32 of what it reads [..., w] (see `pooled`)."""
        return functional.linear(features.float(), self.weight, self.bias)


def pooled(hidden: Tensor, mask: Tensor, pooling: Pooling) -> Tensor:
    """What a head reads of final states [B, T, d], fp32: [B, w], or for "token" the states as they are.
    mask [B, T] bool says where a token is."""
    if pooling == "token":
        return hidden.float()
    first = hidden[:, 0].float()
    return first if pooling == "cls" else torch.cat([first, _mean(hidden, mask)], dim=-1)


def _mean(hidden: Tensor, mask: Tensor) -> Tensor:
    # Where no token is, nothing is promised of a state, not even that it is finite.
    kept = hidden.masked_fill(~mask[:, :, None], 0)
    return kept.sum(1, dtype=torch.float32) / mask.sum(1, keepdim=True)


@dataclass(frozen=True, slots=True)
class BatchedHeads:
    """Heads side by side, narrower ones padded with zeros: weight [H, w, C], bias [H, 1, C]; labels and
    pooling per head. `row_index` [B] says which head a row uses."""

    weight: Tensor
    bias: Tensor
    widths: tuple[int, ...]
    poolings: tuple[Pooling, ...]
    row_index: tuple[int, ...]

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
        return cls(weight, bias, widths, poolings, tuple(int(i) for i in row_index))

    def to(self, device: torch.device) -> "BatchedHeads":
        """These heads there."""
        return replace(self, weight=self.weight.to(device), bias=self.bias.to(device))

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
            features = pooled(hidden.index_select(0, at), mask.index_select(0, at), "cls_mean")
        else:
            features = pooled(hidden[:, :1].index_select(0, at), mask, "cls")
        return self._outputs(features[:, None], rows, self.weight)

    def _of_tokens(self, hidden: Tensor, rows: list[int]) -> Tensor:
        """[Bt, T, C] of the rows whose heads read every token."""
        at = torch.tensor(rows, dtype=torch.int64, device=hidden.device)
        states = hidden.index_select(0, at).float()
        return self._outputs(states, rows, self.weight[:, : hidden.shape[2]])

    def _outputs(self, features: Tensor, rows: list[int], weight: Tensor) -> Tensor:
        heads = torch.tensor([self.row_index[b] for b in rows], dtype=torch.int64, device=features.device)
        return torch.baddbmm(self.bias.index_select(0, heads), features, weight.index_select(0, heads))


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
