"""What an hPLM changes in the upper layers: its PET (parameter-efficient transformer delta)."""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import Any, Final

import torch
from torch import Tensor

from inference.hplm.errors import HplmError

PLACES: Final = ("query", "key", "value", "output", "expand", "contract")
"""The linear maps of a layer, in the order of the data."""
NORMS: Final = ("attention", "output")
ADAPTER_SCALE = 1e-2


@dataclass(frozen=True, slots=True)
class PetSpec:
    """Which parts a PET has. adapter, output_adapter: width behind the attention and behind the feed-forward
    block; lora: rank of the updates of `lora_places`; 0 is none."""

    adapter: int = 0
    output_adapter: int = 0
    lora: int = 0
    lora_places: tuple[str, ...] = PLACES
    biases: bool = False
    norms: bool = False

    def __post_init__(self) -> None:
        unknown = sorted(set(self.lora_places) - set(PLACES))
        if unknown:
            raise HplmError(
                "invalid_field", f"LoRA has no place {unknown[0]!r}; places are {', '.join(PLACES)}"
            )
        if min(self.adapter, self.output_adapter, self.lora) < 0:
            raise HplmError("invalid_field", "the sizes of a PET are not negative")

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "lora_places": list(self.lora_places)}


@dataclass(frozen=True, slots=True)
class UpperShape:
    """Of the upper layers: how many, their width, and that of their feed-forward block."""

    layers: int
    hidden: int
    inner: int

    def ends(self, place: str) -> tuple[int, int]:
        """(input, output) width of a linear map."""
        if place == "expand":
            return self.hidden, self.inner
        return (self.inner, self.hidden) if place == "contract" else (self.hidden, self.hidden)


@dataclass(frozen=True, slots=True)
class PetWeights:
    """One hPLM's PET: tensors by name, each [L, ...] over the L upper layers.

    `adapter.*` and `output_adapter.*`: down_w [L, r, d], down_b [L, r], up_w [L, d, r], up_b [L, d];
    `lora.<place>.a` [L, r, in] and `lora.<place>.b` [L, out, r], any scaling folded into b;
    `bias.<place>` [L, out]; `norm.attention.weight`, `.bias` and `norm.output.…` [L, d], added to the root's.
    """

    spec: PetSpec
    shape: UpperShape
    weights: dict[str, Tensor]

    def __post_init__(self) -> None:
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
        """The identity, ready to learn: one factor of every product is random, the other zero."""
        weights = {}
        for name, size in tensor_shapes(spec, shape):
            if name.endswith("down_w"):
                weights[name] = torch.randn(size, generator=generator) * ADAPTER_SCALE
            elif name.endswith(".a"):
                weights[name] = torch.randn(size, generator=generator) / size[2] ** 0.5
            else:
                weights[name] = torch.zeros(size)
        return cls(spec, shape, weights)

    @property
    def bytes(self) -> int:
        """Memory that the tensors take."""
        return sum(value.nbytes for value in self.weights.values())

    @property
    def dtype(self) -> torch.dtype:
        """Of the tensors; float32 where there is none."""
        return next((value.dtype for value in self.weights.values()), torch.float32)

    def to(
        self, device: torch.device | str, dtype: torch.dtype, *, non_blocking: bool = False
    ) -> "PetWeights":
        """A copy there, in that type (the same object's tensors where nothing changes)."""
        moved = {
            name: value.to(device=device, dtype=dtype, non_blocking=non_blocking)
            for name, value in self.weights.items()
        }
        return PetWeights(self.spec, self.shape, moved)

    @classmethod
    def from_json(
        cls, spec: Mapping[str, Any], shape: Mapping[str, Any], weights: dict[str, Tensor]
    ) -> "PetWeights":
        """From what was stored; HplmError(corrupt_artifact) when it contradicts itself."""
        try:
            parts = {**spec, "lora_places": tuple(spec.get("lora_places", PLACES))}
            return cls(PetSpec(**parts), UpperShape(**shape), weights)
        except TypeError as error:
            raise HplmError("corrupt_artifact", f"PET: {error}") from error


def tensor_shapes(spec: PetSpec, shape: UpperShape) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The names of the tensors of such a PET, with their shapes [L, ...]."""
    layers, hidden = shape.layers, shape.hidden
    for part, width in (("adapter", spec.adapter), ("output_adapter", spec.output_adapter)):
        if width:
            yield f"{part}.down_w", (layers, width, hidden)
            yield f"{part}.down_b", (layers, width)
            yield f"{part}.up_w", (layers, hidden, width)
            yield f"{part}.up_b", (layers, hidden)
    if spec.lora:
        for place in spec.lora_places:
            into, out = shape.ends(place)
            yield f"lora.{place}.a", (layers, spec.lora, into)
            yield f"lora.{place}.b", (layers, out, spec.lora)
    if spec.biases:
        for place in PLACES:
            yield f"bias.{place}", (layers, shape.ends(place)[1])
    if spec.norms:
        for norm in NORMS:
            yield f"norm.{norm}.weight", (layers, hidden)
            yield f"norm.{norm}.bias", (layers, hidden)


@dataclass(frozen=True)
class PetLayout:
    """Where in a layer's row of numbers each tensor of such a PET lies, as it was trained. Down-projections
    of maps that read the same input lie side by side, so that one product computes them all."""

    spec: PetSpec
    shape: UpperShape

    @cached_property
    def places(self) -> dict[str, tuple[int, tuple[int, ...]]]:
        """By name: the first element, and the shape in one layer."""
        found, start = {}, 0
        shapes = {name: size for name, (_, *size) in tensor_shapes(self.spec, self.shape)}
        down = [f"lora.{place}.a" for place in PLACES if f"lora.{place}.a" in shapes]
        for name in [*down, *(name for name in shapes if name not in down)]:
            found[name] = (start, tuple(shapes[name]))
            start += math.prod(shapes[name])
        return found

    @cached_property
    def width(self) -> int:
        """Elements of a layer's row."""
        return sum(math.prod(shape) for _, shape in self.places.values())

    def view(self, row: Tensor, name: str) -> Tensor | None:
        """The tensor of that name in a layer's row [width], without a copy; None where the PET has none."""
        place = self.places.get(name)
        return None if place is None else _view(row, *place)

    def shrink(self, row: Tensor, places: Collection[str]) -> tuple[Tensor, list[str]] | None:
        """The down-projections [k r, in] of the k maps among `places` that have a low-rank update, and which
        these are; None where there is none. `places` read one input and stand in the order of PLACES."""
        changed = [place for place in places if f"lora.{place}.a" in self.places]
        if not changed:
            return None
        start, (rank, inputs) = self.places[f"lora.{changed[0]}.a"]
        return _view(row, start, (len(changed) * rank, inputs)), changed

    def to_json(self) -> dict[str, Any]:
        """What `from_json` reads."""
        return {"pet": self.spec.to_json(), "shape": asdict(self.shape)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "PetLayout":
        """HplmError, TypeError or KeyError for what `to_json` has not given."""
        spec = {**stored["pet"], "lora_places": tuple(stored["pet"]["lora_places"])}
        return _shared_layout(PetSpec(**spec), UpperShape(**stored["shape"]))


def _view(row: Tensor, start: int, shape: tuple[int, ...]) -> Tensor:
    strides = (shape[1], 1) if len(shape) == 2 else (1,)
    return row.as_strided(shape, strides, row.storage_offset() + start)


@dataclass(frozen=True, slots=True, eq=False)
class PackedPet:
    """One PET in its layout: rows [L, width]."""

    layout: PetLayout
    rows: Tensor

    @classmethod
    def of(cls, pet: PetWeights, dtype: torch.dtype) -> "PackedPet":
        """A copy of the PET in that type, on the host."""
        layout = _shared_layout(pet.spec, pet.shape)
        rows = torch.empty(pet.shape.layers, layout.width, dtype=dtype)
        for name, (start, shape) in layout.places.items():
            rows[:, start : start + math.prod(shape)] = pet.weights[name].flatten(1)
        return cls(layout, rows)


@lru_cache(1024)
def _shared_layout(spec: PetSpec, shape: UpperShape) -> PetLayout:
    """One object for all PETs of a kind, since a machine holds thousands of each."""
    return PetLayout(spec, shape)
