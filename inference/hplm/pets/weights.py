"""The weights of a PET: tensors by name, as they are trained and stored."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from inference.errors import HplmError
from inference.hplm.pets.kinds import KINDS, tensor_shapes
from inference.hplm.pets.packed import LayoutViews, PetLayout, shared_layout
from inference.hplm.pets.spec import MAX_SHARE, PLACES, PetSpec, UpperShape
from inference.hplm.pets.stored_positions import ROWS, compressed, read_sparse

SHARES: Final = ("mask", "diff")
"""The parts of a spec that are no whole numbers."""


@dataclass(frozen=True, slots=True)
class PetWeights:
    """A PET: tensors by name, stacked over the L upper layers; each kind says which (`kinds.KINDS`).

    A sparse tensor is as large as the weights that it changes.
    """

    spec: PetSpec
    shape: UpperShape
    weights: Mapping[str, Tensor]

    def __post_init__(self) -> None:
        if self._read is not None:
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

    @torch.no_grad()
    def begin(self, upper: Mapping[str, Tensor]) -> None:
        """Prepare an untrained PET for layers with these weights [L, out, in] by place."""
        for kind in KINDS:
            kind.begin(self.weights, upper)

    @property
    def bytes(self) -> int:
        """The size in memory of what serves."""
        return self.shape.layers * self._layout.row_width(self.dtype) * self.dtype.itemsize

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the tensors; float32 if there are none."""
        if self._read is not None:
            return self._read[ROWS].dtype
        return next((value.dtype for value in self.weights.values()), torch.float32)

    @property
    def _read(self) -> Mapping[str, Tensor] | None:
        return self.weights.read if isinstance(self.weights, StoredTensors) else None

    @property
    def _layout(self) -> PetLayout:
        return shared_layout(self.spec, self.shape)

    def to(
        self, device: torch.device | str, dtype: torch.dtype, *, non_blocking: bool = False
    ) -> "PetWeights":
        """A copy on `device` in `dtype`. Tensors that do not change are shared."""
        if self._read is not None:
            return self._of_read(
                self._layout,
                {
                    name: value.to(device, dtype if name == ROWS else value.dtype, non_blocking=non_blocking)
                    for name, value in self._read.items()
                },
            )
        moved = {
            name: value.to(device=device, dtype=dtype, non_blocking=non_blocking)
            for name, value in self.weights.items()
        }
        return PetWeights(self.spec, self.shape, moved)

    def numbers(self) -> Tensor:
        """All numbers but those of sparse tensors, of which it has the values that count: [L, width] in the
        order of its layout."""
        if self._read is not None:
            return self._read[ROWS]
        layout, chosen = self._layout, self.positions()
        rows = torch.empty(self.shape.layers, layout.width, dtype=self.dtype)
        for name, part in LayoutViews(layout, rows).items():
            of = name.removesuffix(".values")
            value = self.weights[of]
            part.copy_(value.flatten(1).gather(1, chosen[of].long()) if of in chosen else value)
        return rows

    def positions(self) -> dict[str, Tensor]:
        """Of each sparse tensor the positions [L, k] of the entries that count, ascending, in the flattened
        matrix of each layer."""
        sparse = self._layout.sparse
        if self._read is not None:
            return {name: self._read[name] for name in sparse}
        return {name: one.kind.chosen(self.weights[name].detach(), one.count) for name, one in sparse.items()}

    @classmethod
    def from_stored(
        cls, spec: Mapping[str, Any], shape: Mapping[str, Any], stored: Mapping[str, Tensor]
    ) -> "PetWeights":
        """A PET from its stored parts: its rows, or, of earlier versions, its tensors by name. Raises
        HplmError(corrupt_artifact) if they do not match."""
        # 3.0 == 3: such a layout would be shared with the PETs that are stored properly.
        for name, value in [*spec.items(), *shape.items()]:
            if name in SHARES:
                is_known = isinstance(value, float) and 0 <= value <= MAX_SHARE
            else:
                is_known = name == "lora_places" or (isinstance(value, int) and value >= (name in shape))
            if not is_known:
                raise HplmError("corrupt_artifact", f"PET: {name} is {value!r}")
        try:
            parts = {**spec, "lora_places": tuple(spec.get("lora_places", PLACES))}
            layout = shared_layout(PetSpec(**parts), UpperShape(**shape))
        except TypeError as error:
            raise HplmError("corrupt_artifact", f"PET: {error}") from error
        if ROWS not in stored:
            return cls(layout.spec, layout.shape, dict(stored))
        return cls._of_read(layout, read_sparse(layout, stored))

    @classmethod
    def _of_read(cls, layout: PetLayout, read: Mapping[str, Tensor]) -> "PetWeights":
        return cls(layout.spec, layout.shape, StoredTensors(layout, read))

    def stored(self, dtype: torch.dtype) -> dict[str, Tensor]:
        """What `from_stored` reads, with numbers of that type."""
        if not self.weights:
            return {}
        return {ROWS: self.numbers().to(dtype), **compressed(self._layout, self.positions())}


class StoredTensors(Mapping[str, Tensor]):
    """The tensors [L, ...] of a PET that was read: views, but of sparse ones.

    read: `ROWS`, the numbers [L, width] of its `PetLayout`, and the positions [L, k] of each sparse tensor.
    """

    def __init__(self, layout: PetLayout, read: Mapping[str, Tensor]) -> None:
        self._layout, self.read = layout, read
        self._views = LayoutViews(layout, read[ROWS])

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._layout.sparse:
            return self._views[name]
        sparse = self._layout.sparse[name]
        values = self._views[f"{name}.values"] if sparse.kind.has_values else None
        size = (self._layout.shape.layers, *sparse.size)
        return sparse.kind.dense(self.read[name], values, size).to(self.read[ROWS].dtype)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in tensor_shapes(self._layout.spec, self._layout.shape))

    def __len__(self) -> int:
        return sum(1 for _ in self)
