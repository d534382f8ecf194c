"""PETs at work inside a layer: many hPLMs' side by side in one batch (paper, section 6.3), or one for all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from inference.hplm.pets import PetWeights

# From so many times more tokens in a batch than a map is wide, adding a low-rank update to the weights costs
# less than making it beside them: a training step on a CPU of 16 texts of 128 tokens, 384 wide, takes 71% of
# the time, of 64 tokens as much as before.
MERGED_FROM = 4


class LayerPets(Protocol):
    """What one layer asks of the PETs while it computes; hidden states are [B, T, width] throughout."""

    def linear(self, place: str, module: nn.Linear, hidden: Tensor) -> Tensor:
        """The map `module` at that place of the layer, as the PETs change it."""

    def norm(self, name: str, module: nn.LayerNorm, hidden: Tensor) -> Tensor:
        """The normalisation `module`, as the PETs change it."""

    def adapt(self, part: str, hidden: Tensor) -> Tensor:
        """`hidden` behind the adapters of that name, `adapter` or `output_adapter`."""


class Pets(Protocol):
    """The PETs of a batch."""

    def layer(self, index: int) -> LayerPets:
        """Those of upper layer `index`."""


@dataclass(frozen=True, slots=True)
class SharedPets:
    """One PET for all rows, as in training: plain products, which are quick to differentiate."""

    weights: Mapping[str, Tensor]

    def layer(self, index: int) -> "SharedLayer":
        return SharedLayer({name: value[index] for name, value in self.weights.items()})


@dataclass(frozen=True, slots=True)
class SharedLayer:
    """One layer of `SharedPets`; the tensors lack their first dimension."""

    weights: Mapping[str, Tensor]

    def linear(self, place: str, module: nn.Linear, hidden: Tensor) -> Tensor:
        a, shift = self.weights.get(f"lora.{place}.a"), self.weights.get(f"bias.{place}")
        bias = module.bias if shift is None else module.bias + shift
        if a is None:
            return functional.linear(hidden, module.weight, bias)
        b = self.weights[f"lora.{place}.b"]
        if hidden.shape[:-1].numel() >= MERGED_FROM * min(module.weight.shape):
            return functional.linear(hidden, module.weight + b @ a, bias)
        update = functional.linear(functional.linear(hidden, a), b)
        return functional.linear(hidden, module.weight, bias) + update

    def norm(self, name: str, module: nn.LayerNorm, hidden: Tensor) -> Tensor:
        shift = self.weights.get(f"norm.{name}.weight")
        if shift is None:
            plain: Tensor = module(hidden)
            return plain
        bias = module.bias + self.weights[f"norm.{name}.bias"]
        return functional.layer_norm(hidden, module.normalized_shape, module.weight + shift, bias, module.eps)

    def adapt(self, part: str, hidden: Tensor) -> Tensor:
        down = self.weights.get(f"{part}.down_w")
        if down is None:
            return hidden
        narrow = functional.linear(hidden, down, self.weights[f"{part}.down_b"]).relu()
        return hidden + functional.linear(narrow, self.weights[f"{part}.up_w"], self.weights[f"{part}.up_b"])


@dataclass(frozen=True, slots=True)
class BatchedPets:
    """The PETs of a batch's hPLMs side by side, and which row uses which.

    stacks: by name, [L, A, ...] over A PETs, laid out for the right-hand side of a product: adapters and
    LoRA factors [L, A, in, out], everything else [L, A, 1, width]. What a PET lacks, and what it is narrower
    than the widest, is zeros, which change nothing; what all lack is not there and costs nothing.
    row_index [B] int64 < A.
    """

    stacks: dict[str, Tensor]
    row_index: Tensor

    @classmethod
    def stack(cls, pets: Sequence[PetWeights], row_index: Tensor | Sequence[int]) -> "BatchedPets":
        """Put `pets`, all of one root, side by side; row b of the batch uses `pets[row_index[b]]`."""
        names = sorted({name for pet in pets for name in pet.weights})
        stacks = {name: _side_by_side([_turned(pet.weights.get(name)) for pet in pets]) for name in names}
        device = next((value.device for value in stacks.values()), torch.device("cpu"))
        return cls(stacks, torch.as_tensor(row_index, dtype=torch.int64).to(device))

    def layer(self, index: int) -> "BatchedLayer":
        return BatchedLayer(self.stacks, index, self.row_index)


@dataclass(frozen=True, slots=True)
class BatchedLayer:
    """One layer of `BatchedPets`."""

    stacks: Mapping[str, Tensor]
    index: int
    row_index: Tensor

    def linear(self, place: str, module: nn.Linear, hidden: Tensor) -> Tensor:
        result: Tensor = module(hidden)
        a, bias = self._rows(f"lora.{place}.a"), self._rows(f"bias.{place}")
        if a is not None:
            b = self._rows(f"lora.{place}.b")
            assert b is not None
            result = torch.baddbmm(result, torch.bmm(hidden, a), b)
        return result if bias is None else result + bias

    def norm(self, name: str, module: nn.LayerNorm, hidden: Tensor) -> Tensor:
        weight, bias = self._rows(f"norm.{name}.weight"), self._rows(f"norm.{name}.bias")
        if weight is None or bias is None:
            plain: Tensor = module(hidden)
            return plain
        centred = functional.layer_norm(hidden, module.normalized_shape, None, None, module.eps)
        return torch.addcmul(module.bias + bias, centred, module.weight + weight)

    def adapt(self, part: str, hidden: Tensor) -> Tensor:
        down = self._rows(f"{part}.down_w")
        if down is None:
            return hidden
        down_b, up, up_b = (self._rows(f"{part}.{name}") for name in ("down_b", "up_w", "up_b"))
        assert down_b is not None
        assert up is not None
        assert up_b is not None
        return torch.baddbmm(hidden + up_b, torch.baddbmm(down_b, hidden, down).relu(), up)

    def _rows(self, name: str) -> Tensor | None:
        """The tensor of each row's own PET, [B, ...]; None where no PET of the batch has one."""
        stacked = self.stacks.get(name)
        if stacked is None:
            return None
        of_layer = stacked[self.index]
        if len(of_layer) == 1:  # one hPLM alone: no copy for each row
            return of_layer.expand(len(self.row_index), *of_layer.shape[1:])
        return of_layer.index_select(0, self.row_index)


def _turned(value: Tensor | None) -> Tensor | None:
    """As `BatchedPets` keeps it, still without the dimension of the PETs: [L, in, out] or [L, 1, width]."""
    if value is None:
        return None
    return value.transpose(1, 2) if value.dim() == 3 else value[:, None]


def _side_by_side(values: Sequence[Tensor | None]) -> Tensor:
    """[L, A, ...] from A tensors, some of them narrower or absent."""
    present = [value for value in values if value is not None]
    sizes = [max(value.shape[axis] for value in present) for axis in range(3)]
    stacked = present[0].new_zeros(sizes[0], len(values), *sizes[1:])
    for at, value in enumerate(values):
        if value is not None:
            stacked[:, at, : value.shape[1], : value.shape[2]] = value
    return stacked
