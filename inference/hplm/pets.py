"""PETs (parameter-efficient deltas of the upper layers): adapters, LoRA, biases and layer norms."""

import math
import mmap
from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Final

import torch
from torch import Tensor

from inference.errors import HplmError

PLACES: Final = ("query", "key", "value", "output", "expand", "contract")
"""The linear layers of a transformer block, in order of use."""
NORMS: Final = ("attention", "output")
ROWS: Final = "rows"
"""The stored tensor of a PET: what computes is read and converted as one."""
ADAPTER_SCALE = 1e-2
PRIVATE: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
"""Neighbouring mappings of this kind count as one, of which a process may have some 65,000. All pages at once
take two thirds of the time of one by one."""


@dataclass(frozen=True, slots=True)
class PetSpec:
    """The parts of a PET.

    adapter, output_adapter: width of the adapters after attention and after the feed-forward block; 0: none.
    lora: rank of LoRA in the linear layers `lora_places`; 0: none. biases, norms: deltas of those parameters.
    """

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
                "invalid_field", f"LoRA has no place {unknown[0]!r}; the places are {', '.join(PLACES)}"
            )
        if min(self.adapter, self.output_adapter, self.lora) < 0:
            raise HplmError("invalid_field", "the sizes of a PET must not be negative")

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "lora_places": list(self.lora_places)}


@dataclass(frozen=True, slots=True)
class UpperShape:
    """The number of upper layers, the hidden size, and the size of the feed-forward block."""

    layers: int
    hidden: int
    inner: int

    def sizes(self, place: str) -> tuple[int, int]:
        """(input, output) size of a linear layer."""
        if place == "expand":
            return self.hidden, self.inner
        return (self.inner, self.hidden) if place == "contract" else (self.hidden, self.hidden)


@dataclass(frozen=True, slots=True)
class PetWeights:
    """A PET: tensors by name, stacked over the L upper layers.

    `adapter.*` and `output_adapter.*`: down_w [L, r, d], down_b [L, r], up_w [L, d, r], up_b [L, d];
    `lora.<place>.a` [L, r, in] and `lora.<place>.b` [L, out, r], with the scaling in b;
    `bias.<place>` [L, out]; `norm.attention.weight`, `.bias` and `norm.output.…` [L, d]. Biases and norms are
    added to the root's. rows: the rows [L, width] of its `PetLayout` that all of them are views of, if so.
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
            layout = _shared_layout(PetSpec(**parts), UpperShape(**shape))
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


def tensor_shapes(spec: PetSpec, shape: UpperShape) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The names and shapes [L, ...] of the tensors of a PET."""
    layers, hidden = shape.layers, shape.hidden
    for part, width in (("adapter", spec.adapter), ("output_adapter", spec.output_adapter)):
        if width:
            yield f"{part}.down_w", (layers, width, hidden)
            yield f"{part}.down_b", (layers, width)
            yield f"{part}.up_w", (layers, hidden, width)
            yield f"{part}.up_b", (layers, hidden)
    if spec.lora:
        for place in spec.lora_places:
            into, out = shape.sizes(place)
            yield f"lora.{place}.a", (layers, spec.lora, into)
            yield f"lora.{place}.b", (layers, out, spec.lora)
    if spec.biases:
        for place in PLACES:
            yield f"bias.{place}", (layers, shape.sizes(place)[1])
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
    def offsets(self) -> dict[str, tuple[int, tuple[int, ...]]]:
        """By name: the index of the first element, and the shape in one layer."""
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
        return sum(math.prod(shape) for _, shape in self.offsets.values())

    def view(self, row: Tensor, name: str) -> Tensor | None:
        """The tensor of that name in a layer's row [width], without a copy; None where the PET has none."""
        place = self.offsets.get(name)
        return None if place is None else _view(row, *place)

    def shrink(self, row: Tensor, places: Collection[str]) -> tuple[Tensor | None, list[str]]:
        """The down-projections [k r, in] of the k maps among `places` that have a low-rank update, and which
        these are; None for none. `places` read one input and stand in the order of PLACES."""
        changed = [place for place in places if f"lora.{place}.a" in self.offsets]
        if not changed:
            return None, changed
        start, (rank, inputs) = self.offsets[f"lora.{changed[0]}.a"]
        return _view(row, start, (len(changed) * rank, inputs)), changed


class LayoutViews(Mapping[str, Tensor]):
    """The tensors [L, ...] of a PET in its rows [L, width], without copies."""

    def __init__(self, layout: PetLayout, rows: Tensor) -> None:
        self._layout, self._rows = layout, rows

    def __getitem__(self, name: str) -> Tensor:
        start, shape = self._layout.offsets[name]
        return self._rows[:, start : start + math.prod(shape)].view(len(self._rows), *shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._layout.offsets)

    def __len__(self) -> int:
        return len(self._layout.offsets)


def _view(row: Tensor, start: int, shape: tuple[int, ...]) -> Tensor:
    strides = (shape[1], 1) if len(shape) == 2 else (1,)
    return row.as_strided(shape, strides, row.storage_offset() + start)


@dataclass(frozen=True, slots=True, eq=False)
class PackedPet:
    """One PET in its layout: rows [L, width]. key: of its copies on a device; the digest of its model, so that
    a model that was loaded again finds its copy."""

    layout: PetLayout
    rows: Tensor
    key: Hashable = field(default_factory=object)

    @classmethod
    def of(cls, pet: PetWeights, dtype: torch.dtype, digest: str | None = None) -> "PackedPet":
        """A copy of the PET in that type, on the host. digest: of its model; None: it is like no other."""
        layout = _shared_layout(pet.spec, pet.shape)
        rows = _mapped(pet.shape.layers * layout.width, dtype).view(pet.shape.layers, layout.width)
        # By way of fp32: PyTorch converts fp16 to bf16 ten times as slowly on a CPU.
        if pet.rows is not None:
            rows.copy_(pet.rows.float())
        else:
            for name, part in LayoutViews(layout, rows).items():
                part.copy_(pet.weights[name].float())
        return cls(layout, rows, digest or object())


def _mapped(count: int, dtype: torch.dtype) -> Tensor:
    """Zeros [count] in a mapping of their own, which the system gets back when they are freed.

    In the heap, models that come and go would leave holes between the intermediate results of batches.
    """
    if not count:
        return torch.empty(0, dtype=dtype)
    return torch.frombuffer(mmap.mmap(-1, count * dtype.itemsize, flags=PRIVATE), dtype=dtype)


@lru_cache(1024)
def _shared_layout(spec: PetSpec, shape: UpperShape) -> PetLayout:
    """A layout, shared by all PETs of the same spec and shape: a worker has thousands of them."""
    return PetLayout(spec, shape)
