"""Adapters: one bottleneck per upper layer (paper, equation 1), and many hPLMs' adapters in one batch
(section 6.3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from inference.hplm.errors import HplmError

NAMES = ("down_w", "down_b", "up_w", "up_b")


@dataclass(frozen=True, slots=True)
class AdapterWeights:
    """One hPLM's adapters: down_w [L, r, d], down_b [L, r], up_w [L, d, r], up_b [L, d]; L upper layers,
    size r."""

    down_w: Tensor
    down_b: Tensor
    up_w: Tensor
    up_b: Tensor

    def __post_init__(self) -> None:
        layers, size, hidden = self.down_w.shape
        expected = {"down_b": (layers, size), "up_w": (layers, hidden, size), "up_b": (layers, hidden)}
        for name, shape in expected.items():
            if tuple(getattr(self, name).shape) != shape:
                found = tuple(getattr(self, name).shape)
                raise HplmError("corrupt_artifact", f"adapter: {name} has shape {found}, not {shape}")

    @classmethod
    def initial(
        cls,
        layers: int,
        size: int,
        hidden: int,
        *,
        generator: torch.Generator | None = None,
        scale: float = 1e-2,
    ) -> "AdapterWeights":
        """Close to the identity, as an adapter must start: small normal weights, no bias."""
        down = torch.randn(layers, size, hidden, generator=generator) * scale
        up = torch.randn(layers, hidden, size, generator=generator) * scale
        return cls(down, torch.zeros(layers, size), up, torch.zeros(layers, hidden))

    @property
    def layers(self) -> int:
        return self.down_w.shape[0]

    @property
    def size(self) -> int:
        """The width r of the bottleneck."""
        return self.down_w.shape[1]

    @property
    def hidden(self) -> int:
        return self.down_w.shape[2]

    @property
    def bytes(self) -> int:
        """Memory the four tensors take."""
        return sum(value.nbytes for value in self.tensors().values())

    def tensors(self) -> dict[str, Tensor]:
        """The four tensors by name; also what an optimiser is given."""
        return {name: getattr(self, name) for name in NAMES}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> "AdapterWeights":
        """The inverse of `tensors`; HplmError(corrupt_artifact) when one is absent or misshapen."""
        absent = [name for name in NAMES if name not in tensors]
        if absent:
            raise HplmError("corrupt_artifact", f"adapter weights lack {', '.join(absent)}")
        if tensors["down_w"].dim() != 3:
            raise HplmError("corrupt_artifact", "adapter: down_w is not three-dimensional")
        return cls(**{name: tensors[name] for name in NAMES})

    def to(
        self, device: torch.device | str, dtype: torch.dtype, *, non_blocking: bool = False
    ) -> "AdapterWeights":
        """A copy there, in that type (the same object's tensors where nothing changes)."""
        moved = {
            k: v.to(device=device, dtype=dtype, non_blocking=non_blocking) for k, v in self.tensors().items()
        }
        return AdapterWeights(**moved)


@dataclass(frozen=True, slots=True)
class BatchedAdapters:
    """The adapters of a batch's hPLMs side by side, and which row uses which.

    A adapters, narrower ones padded with zeros to the widest r (exact: ReLU(0) adds nothing):
    down_w [L, A, d, r], down_b [L, A, 1, r], up_w [L, A, r, d], up_b [L, A, 1, d]; row_index [B] int64 < A.
    """

    down_w: Tensor
    down_b: Tensor
    up_w: Tensor
    up_b: Tensor
    row_index: Tensor

    @classmethod
    def stack(
        cls, adapters: Sequence[AdapterWeights], row_index: Tensor | Sequence[int]
    ) -> "BatchedAdapters":
        """Put `adapters` side by side; row b of the batch uses `adapters[row_index[b]]`. Differentiable."""
        widest = max(adapter.size for adapter in adapters)
        down_w = torch.stack([_widen(a.down_w.transpose(1, 2), widest) for a in adapters], dim=1)
        down_b = torch.stack([_widen(a.down_b[:, None], widest) for a in adapters], dim=1)
        up_w = torch.stack([_widen(a.up_w, widest).transpose(1, 2) for a in adapters], dim=1)
        up_b = torch.stack([a.up_b[:, None] for a in adapters], dim=1)
        index = torch.as_tensor(row_index, dtype=torch.int64).to(down_w.device)
        return cls(down_w, down_b, up_w, up_b, index)

    def apply(self, layer: int, hidden: Tensor) -> Tensor:
        """`A(a) = up(relu(down(a))) + a` of upper layer `layer`, each row of `hidden` [B, T, d] by its own
        adapter."""
        narrow = torch.baddbmm(self._rows(self.down_b[layer]), hidden, self._rows(self.down_w[layer]))
        return torch.baddbmm(
            hidden + self._rows(self.up_b[layer]), narrow.relu(), self._rows(self.up_w[layer])
        )

    def _rows(self, stacked: Tensor) -> Tensor:
        if stacked.shape[0] == 1:  # one hPLM alone, as in fine-tuning: no copy per row
            return stacked.expand(len(self.row_index), -1, -1)
        return stacked.index_select(0, self.row_index)


def _widen(weight: Tensor, width: int) -> Tensor:
    """`weight` with its last dimension padded with zeros to `width`."""
    return functional.pad(weight, (0, width - weight.shape[-1]))
