"""PETs as they lie in a serving machine: one flat row per layer, so that those of a batch are put side by
side by copying rows (paper, section 6.3)."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from inference.hplm.pets import PetSpec, PetWeights, Shape, tensor_shapes


@dataclass(frozen=True)
class PetLayout:
    """Where in a layer's row each tensor of such a PET lies, as the right-hand side of a product: adapters
    and LoRA factors [in, out], everything else [1, width]."""

    spec: PetSpec
    shape: Shape

    @cached_property
    def places(self) -> dict[str, tuple[int, int, int]]:
        """By name: the first element, and the two sizes."""
        found, start = {}, 0
        for name, (_, *size) in tensor_shapes(self.spec, self.shape):
            rows, columns = (size[1], size[0]) if len(size) == 2 else (1, size[0])
            found[name] = (start, rows, columns)
            start += rows * columns
        return found

    @cached_property
    def width(self) -> int:
        """Elements of a layer's row."""
        return sum(rows * columns for _, rows, columns in self.places.values())

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """By name [A, in, out], of rows [A, width] of one layer; no copies."""
        return {
            name: torch.unflatten(flat[:, start : start + rows * columns], 1, (rows, columns))
            for name, (start, rows, columns) in self.places.items()
        }


@dataclass(frozen=True, slots=True, eq=False)
class PackedPet:
    """One PET in its layout: rows [L, width], on the host, pinned where there is an accelerator."""

    layout: PetLayout
    rows: Tensor

    @classmethod
    def of(cls, pet: PetWeights, dtype: torch.dtype, *, pinned: bool = False) -> "PackedPet":
        """A copy of the PET in that type."""
        layout = PetLayout(pet.spec, pet.shape)
        rows = torch.empty(pet.shape.layers, layout.width, dtype=dtype, pin_memory=pinned)
        for name, (start, into, out) in layout.places.items():
            value = pet.weights[name]
            turned = value.transpose(1, 2) if value.dim() == 3 else value[:, None]
            torch.unflatten(rows[:, start : start + into * out], 1, (into, out)).copy_(turned)
        return cls(layout, rows)

    @property
    def bytes(self) -> int:
        """Memory that it takes."""
        return self.rows.nbytes
