"""PETs as they lie in a serving machine: one flat row per layer, so that those of a batch are put side by
side by copying rows (paper, section 6.3)."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import Any

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

    def to_json(self) -> dict[str, Any]:
        """What `from_json` reads."""
        return {"pet": self.spec.to_json(), "shape": asdict(self.shape)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "PetLayout":
        """HplmError, TypeError or KeyError for what `to_json` has not given."""
        spec = {**stored["pet"], "lora_places": tuple(stored["pet"]["lora_places"])}
        return _shared(PetSpec(**spec), Shape(**stored["shape"]))

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """By name [A, in, out], of rows [A, width] of one layer; no copies."""
        return {
            name: torch.unflatten(flat[:, start : start + rows * columns], 1, (rows, columns))
            for name, (start, rows, columns) in self.places.items()
        }


@dataclass(frozen=True, slots=True, eq=False)
class PackedPet:
    """One PET in its layout: rows [L, width], on the host."""

    layout: PetLayout
    rows: Tensor

    @classmethod
    def of(cls, pet: PetWeights, dtype: torch.dtype) -> "PackedPet":
        """A copy of the PET in that type."""
        layout = _shared(pet.spec, pet.shape)
        rows = torch.empty(pet.shape.layers, layout.width, dtype=dtype)
        for name, (start, into, out) in layout.places.items():
            value = pet.weights[name]
            turned = value.transpose(1, 2) if value.dim() == 3 else value[:, None]
            torch.unflatten(rows[:, start : start + into * out], 1, (into, out)).copy_(turned)
        return cls(layout, rows)


@lru_cache(1024)
def _shared(spec: PetSpec, shape: Shape) -> PetLayout:
    """One object for all PETs of a kind, since a machine holds thousands of each."""
    return PetLayout(spec, shape)
