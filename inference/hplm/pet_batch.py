"""Applies PETs within the layers: many in a batch (paper, section 6.3), or one for all rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from inference.hplm.bucketed_linear import linear
from inference.hplm.pets import PackedPet, PetLayout

MERGE_THRESHOLD = 4
"""LoRA is merged into the weights if a batch has this many times more tokens than the layer is wide.

A CPU training step of 16 texts of 128 tokens with a hidden size of 384 then takes 71% of the time.
"""


class LayerPets(Protocol):
    """The PETs of one layer. Hidden states are [B, T, size]."""

    def linear(self, place: str, module: nn.Linear, hidden: Tensor) -> Tensor:
        """Apply the linear layer `module`, which is at `place`, with the PETs."""

    def norm(self, name: str, module: nn.LayerNorm, hidden: Tensor) -> Tensor:
        """Apply the layer norm `module` with the PETs."""

    def adapt(self, part: str, hidden: Tensor) -> Tensor:
        """Apply the adapters: `adapter` or `output_adapter`."""


class Pets(Protocol):
    """The PETs of a batch."""

    def layer(self, index: int) -> LayerPets:
        """The PETs of upper layer `index`."""


@dataclass(frozen=True, slots=True)
class SharedPets:
    """One PET for all rows of a batch, as in training."""

    weights: Mapping[str, Tensor]

    def layer(self, index: int) -> "SharedLayer":
        return SharedLayer({name: value[index] for name, value in self.weights.items()})


@dataclass(frozen=True, slots=True)
class SharedLayer:
    """One layer of `SharedPets`: the tensors without their first dimension."""

    weights: Mapping[str, Tensor]

    def linear(self, place: str, module: nn.Linear, hidden: Tensor) -> Tensor:
        a, shift = self.weights.get(f"lora.{place}.a"), self.weights.get(f"bias.{place}")
        bias = module.bias if shift is None else module.bias + shift
        if a is None:
            return linear(hidden, module.weight, bias)
        b = self.weights[f"lora.{place}.b"]
        if hidden.shape[:-1].numel() >= MERGE_THRESHOLD * min(module.weight.shape):
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


class BatchedPets:
    """The PETs of a batch, one for each row.

    PETs of the same layout form a group, which computes only on its rows. The weights of a layer are gathered
    on the device by `load`, or else on first use.
    """

    def __init__(self, groups: Sequence["PetGroup"], device: torch.device) -> None:
        self._groups = [group for group in groups if group.index and group.layout.width]
        self._device = device
        self._loaded: dict[int, BatchedLayer] = {}

    @classmethod
    def stack(
        cls,
        pets: Sequence[PackedPet],
        row_index: Sequence[int],
        device: torch.device | str = "cpu",
    ) -> "BatchedPets":
        """The PETs of a batch; row b uses `pets[row_index[b]]`. All are of one root."""
        by_layout: dict[PetLayout, list[int]] = {}
        for number, pet in enumerate(pets):
            by_layout.setdefault(pet.layout, []).append(number)
        where = torch.device(device)
        groups = [PetGroup.of(pets, numbers, row_index, where) for numbers in by_layout.values()]
        return cls(groups, where)

    def load(self, index: int) -> list[Tensor]:
        """The groups' rows [rows of the group, width] of layer `index` on the device. Safe to repeat, not to
        run twice at once."""
        return [group.rows for group in self.layer(index).groups]

    def layer(self, index: int) -> "BatchedLayer":
        if index not in self._loaded:
            parts = [LayerGroup.of(group, index, self._device) for group in self._groups]
            self._loaded[index] = BatchedLayer(parts)
        return self._loaded[index]


@dataclass(frozen=True, slots=True, eq=False)
class PetGroup:
    """The PETs of one layout.

    members: their rows of the batch [M] int64, None for all rows. index: the PET of each of these rows.
    """

    pets: list[PackedPet]
    members: Tensor | None
    index: list[int]

    @classmethod
    def of(
        cls, pets: Sequence[PackedPet], numbers: list[int], row_index: Sequence[int], device: torch.device
    ) -> "PetGroup":
        """The group of the PETs with these indices."""
        own = {number: at for at, number in enumerate(numbers)}
        members = [row for row, number in enumerate(row_index) if number in own]
        index = [own[row_index[row]] for row in members]
        all_rows = len(members) == len(row_index)
        return cls(
            [pets[number] for number in numbers],
            None if all_rows else torch.tensor(members, dtype=torch.int64, device=device),
            index,
        )

    @property
    def layout(self) -> PetLayout:
        return self.pets[0].layout

    def rows_of(self, layer: int, device: torch.device) -> Tensor:
        """The flat weights [M, width] of one layer, for each row of the group."""
        if len(self.pets) == 1:  # no copy for each row
            alone = self.pets[0].rows[layer : layer + 1].to(device)
            return alone.expand(len(self.index), -1)
        rows = [pet.rows[layer] for pet in self.pets]
        if device.type == "cpu":
            return self._gather_on_cpu(rows)
        # Only copies from pinned memory overlap with computation. PyTorch reuses the memory after the copy.
        pinned = torch.empty(len(rows), self.layout.width, dtype=rows[0].dtype, pin_memory=True)
        torch.stack(rows, out=pinned)
        return pinned.to(device, non_blocking=True)[torch.tensor(self.index, device=device)]

    def _gather_on_cpu(self, rows: list[Tensor]) -> Tensor:
        # By NumPy: PyTorch would use its threads, which compute the previous batch.
        gathered = torch.empty(len(self.index), self.layout.width, dtype=rows[0].dtype)
        into, each = gathered.view(torch.uint8).numpy(), [row.view(torch.uint8).numpy() for row in rows]
        for at, number in enumerate(self.index):
            into[at] = each[number]
        return gathered


@dataclass(frozen=True, slots=True, eq=False)
class LayerGroup:
    """One layer of a group: flat weights `rows` [M, width], and their views `tensors` [M, ...] by name."""

    group: PetGroup
    rows: Tensor
    tensors: dict[str, Tensor]

    @classmethod
    def of(cls, group: PetGroup, index: int, device: torch.device) -> "LayerGroup":
        rows = group.rows_of(index, device)
        return cls(group, rows, group.layout.views(rows))

    def select(self, hidden: Tensor) -> Tensor:
        """The group's rows [M, ...] of [B, ...]."""
        members = self.group.members
        return hidden if members is None else hidden.index_select(0, members)

    def insert(self, batch: Tensor, own: Tensor) -> Tensor:
        """The batch [B, ...] with the group's rows replaced by `own` [M, ...]."""
        members = self.group.members
        return own if members is None else batch.index_copy(0, members, own)


@dataclass(frozen=True, slots=True)
class BatchedLayer:
    """One layer of `BatchedPets`."""

    groups: list[LayerGroup]

    def linear(self, place: str, module: nn.Linear, hidden: Tensor) -> Tensor:
        result = linear(hidden, module.weight, module.bias)
        for group in self.groups:
            a, b, bias = (group.tensors.get(f"{kind}.{place}{end}") for kind, end in _LINEAR)
            if a is None and bias is None:
                continue
            own = group.select(result)
            if a is not None and b is not None:
                own = torch.baddbmm(own, torch.bmm(group.select(hidden), a), b)
            result = group.insert(result, own if bias is None else own + bias)
        return result

    def norm(self, name: str, module: nn.LayerNorm, hidden: Tensor) -> Tensor:
        changed = [group for group in self.groups if f"norm.{name}.weight" in group.tensors]
        if any(group.group.members is not None for group in changed) or not changed:
            plain: Tensor = module(hidden)
        else:
            plain = hidden
        for group in changed:
            weight, bias = group.tensors.get(f"norm.{name}.weight"), group.tensors.get(f"norm.{name}.bias")
            assert weight is not None
            assert bias is not None
            own = functional.layer_norm(group.select(hidden), module.normalized_shape, None, None, module.eps)
            plain = group.insert(plain, torch.addcmul(module.bias + bias, own, module.weight + weight))
        return plain

    def adapt(self, part: str, hidden: Tensor) -> Tensor:
        result = hidden
        for group in self.groups:
            down, down_b, up, up_b = (group.tensors.get(f"{part}.{name}") for name in _ADAPTER)
            if down is None or down_b is None or up is None or up_b is None:
                continue
            own = group.select(hidden)
            narrow = torch.baddbmm(down_b, own, down).relu_()
            result = group.insert(result, torch.baddbmm(own + up_b, narrow, up))
        return result


_LINEAR = (("lora", ".a"), ("lora", ".b"), ("bias", ""))
_ADAPTER = ("down_w", "down_b", "up_w", "up_b")
