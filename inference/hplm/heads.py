"""Output heads: one linear layer per hPLM, and those of a batch applied together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from inference.hplm.errors import HplmError


@dataclass(frozen=True, slots=True)
class Head:
    """weight [C, d], bias [C]; C labels. Computed in fp32 whatever the layers use: it costs nothing and
    ranks labels."""

    weight: Tensor
    bias: Tensor

    def __post_init__(self) -> None:
        if self.weight.dim() != 2 or tuple(self.bias.shape) != (self.weight.shape[0],):
            shapes = f"{tuple(self.weight.shape)} and {tuple(self.bias.shape)}"
            raise HplmError("corrupt_artifact", f"head: shapes {shapes} are not [C, d] and [C]")

    @classmethod
    def initial(cls, labels: int, hidden: int, *, generator: torch.Generator | None = None) -> "Head":
        """Small normal weights, no bias."""
        return cls(torch.randn(labels, hidden, generator=generator) * 0.02, torch.zeros(labels))

    @property
    def labels(self) -> int:
        return self.weight.shape[0]

    def tensors(self) -> dict[str, Tensor]:
        """Both tensors by name; also what an optimiser is given."""
        return {"weight": self.weight, "bias": self.bias}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> "Head":
        """The inverse of `tensors`; HplmError(corrupt_artifact) when one is absent or misshapen."""
        if "weight" not in tensors or "bias" not in tensors:
            raise HplmError("corrupt_artifact", "the head lacks its weight or its bias")
        return cls(tensors["weight"], tensors["bias"])

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> "Head":
        """A copy there, fp32."""
        moved = {k: v.to(device, torch.float32, non_blocking=non_blocking) for k, v in self.tensors().items()}
        return Head(**moved)

    def apply(self, hidden: Tensor) -> Tensor:
        """Logits [..., C] fp32 of final states [..., d]."""
        return functional.linear(hidden.float(), self.weight, self.bias)


@dataclass(frozen=True, slots=True)
class BatchedHeads:
    """Heads side by side, narrower ones padded with zeros: weight [H, d, C], bias [H, 1, C]; widths per head.

    `row_index` [B] says which head a row uses, `tagging` [B] whether it wants logits for each token or for
    [CLS] only.
    """

    weight: Tensor
    bias: Tensor
    widths: tuple[int, ...]
    row_index: tuple[int, ...]
    tagging: tuple[bool, ...]

    @classmethod
    def stack(
        cls, heads: Sequence[Head], row_index: Sequence[int], tagging: Sequence[bool]
    ) -> "BatchedHeads":
        """Put `heads` side by side; row b uses `heads[row_index[b]]`, per token when `tagging[b]`."""
        if len(row_index) != len(tagging):
            raise ValueError(f"{len(row_index)} rows, {len(tagging)} tagging flags")
        widths = tuple(head.labels for head in heads)
        widest = max(widths)
        weight = torch.stack([functional.pad(h.weight.float().T, (0, widest - h.labels)) for h in heads])
        bias = torch.stack([functional.pad(h.bias.float()[None], (0, widest - h.labels)) for h in heads])
        return cls(weight, bias, widths, tuple(int(i) for i in row_index), tuple(bool(t) for t in tagging))

    def apply(self, hidden: Tensor) -> "BatchLogits":
        """Logits of every row from final states [B, T, d]; stays on the device."""
        classes = [b for b, tagging in enumerate(self.tagging) if not tagging]
        tags = [b for b, tagging in enumerate(self.tagging) if tagging]
        return BatchLogits(
            self._logits(hidden[:, :1], classes),
            self._logits(hidden, tags),
            tuple(classes),
            tuple(tags),
            tuple(self.widths[index] for index in self.row_index),
        )

    def _logits(self, hidden: Tensor, rows: list[int]) -> Tensor:
        at = torch.tensor(rows, dtype=torch.int64, device=hidden.device)
        heads = torch.tensor([self.row_index[b] for b in rows], dtype=torch.int64, device=hidden.device)
        states = hidden.index_select(0, at).float()
        return torch.baddbmm(self.bias.index_select(0, heads), states, self.weight.index_select(0, heads))


@dataclass(frozen=True, slots=True)
class BatchLogits:
    """A batch's logits: `classes` [Bc, 1, C] and `tags` [Bt, T, C], with the batch rows they belong to."""

    classes: Tensor
    tags: Tensor
    class_rows: tuple[int, ...]
    tag_rows: tuple[int, ...]
    widths: tuple[int, ...]

    def rows(self, lengths: Sequence[int]) -> list[NDArray[np.float32]]:
        """Per batch row, without padding: [C] for a classification, [length, C] for a tagging. Waits for
        the device."""
        found: dict[int, NDArray[np.float32]] = {}
        classes, tags = self.classes.detach().cpu().numpy(), self.tags.detach().cpu().numpy()
        for at, row in enumerate(self.class_rows):
            found[row] = classes[at, 0, : self.widths[row]]
        for at, row in enumerate(self.tag_rows):
            found[row] = tags[at, : lengths[row], : self.widths[row]]
        return [found[row] for row in range(len(self.widths))]
