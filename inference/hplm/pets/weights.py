"""The weights of a PET: tensors by name, as they are trained and stored."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor

from inference.errors import HplmError
from inference.hplm.pets.kinds import KINDS, tensor_shapes
from inference.hplm.pets.packed import LayoutViews, PackedPet, shared_layout
from inference.hplm.pets.spec import PLACES, PetSpec, UpperShape

ROWS: Final = "rows"
"""The stored tensor of a PET: what computes is read and converted as one."""


@dataclass(frozen=True, slots=True)
class PetWeights:
    """A PET: tensors by name, stacked over the L upper layers; each kind says which (`kinds.KINDS`).

    rows: the rows [L, width] of its `PetLayout` that all of them are views of, if so.
    """

    spec: PetSpec
    shape: UpperShape
    weights: Mapping[str, Tensor]
    rows: Tensor | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.rows is not None:
            return
        expected = dict(tensor_shapes(self.spec, self.shape))
        if self.weights.keys() != expected.keys():
            odd = sorted(self.weights.keys() ^ expected.keys())[0]
            raise HplmError("corrupt_artifact", f"PET: {odd} is missing or not expected")
        for name, shape in expected.items():
            found = tuple(self.weights[name].shape)
            if found != shape:
                raise HplmError("corrupt_artifact", f"PET: {name} has shape {found}, not {shape}")

    @classmethod
    def initial(
        cls, spec: PetSpec, shape: UpperShape, *, generator: torch.Generator | None = None
    ) -> "PetWeights":
        """An untrained PET, which changes nothing: of each product one factor is random, the other zero."""
        weights = {
            name: kind.initial(name, size, generator)
            for kind in KINDS
            for name, size in kind.shapes(spec, shape)
        }
        return cls(spec, shape, weights)

    @property
    def bytes(self) -> int:
        """The size of the tensors."""
        return sum(value.nbytes for value in self.weights.values())

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the tensors; float32 if there are none."""
        return next((value.dtype for value in self.weights.values()), torch.float32)

    def to(
        self, device: torch.device | str, dtype: torch.dtype, *, non_blocking: bool = False
    ) -> "PetWeights":
        """A copy on `device` in `dtype`. Tensors that do not change are shared."""
        moved = {
            name: value.to(device=device, dtype=dtype, non_blocking=non_blocking)
            for name, value in self.weights.items()
        }
        return PetWeights(self.spec, self.shape, moved)

    @classmethod
    def from_stored(
        cls, spec: Mapping[str, Any], shape: Mapping[str, Any], stored: Mapping[str, Tensor]
    ) -> "PetWeights":
        """A PET from its stored parts: its rows, or, of earlier versions, its tensors by name. Raises
        HplmError(corrupt_artifact) if they do not match."""
        # 3.0 == 3: such a layout would be shared with the PETs that are stored properly.
        for name, value in [*spec.items(), *shape.items()]:
            if name != "lora_places" and (not isinstance(value, int) or value < (name in shape)):
                raise HplmError("corrupt_artifact", f"PET: {name} is {value!r}")
        try:
            parts = {**spec, "lora_places": tuple(spec.get("lora_places", PLACES))}
            layout = shared_layout(PetSpec(**parts), UpperShape(**shape))
            expected = layout.shape.layers, layout.width
        except TypeError as error:
            raise HplmError("corrupt_artifact", f"PET: {error}") from error
        rows = stored.get(ROWS)
        if rows is None:
            return cls(layout.spec, layout.shape, dict(stored))
        if rows.shape != expected or len(stored) > 1:
            raise HplmError("corrupt_artifact", f"PET: {ROWS} has shape {tuple(rows.shape)}, not {expected}")
        return cls(layout.spec, layout.shape, LayoutViews(layout, rows), rows)

    def stored(self, dtype: torch.dtype) -> dict[str, Tensor]:
        """What `from_stored` reads, with numbers of that type."""
        return {ROWS: PackedPet.of(self, dtype).rows} if self.weights else {}
