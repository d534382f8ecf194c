"""A PET in memory: for each layer one row of numbers, which is read and copied as one.

The positions of sparse entries lie behind the numbers, as bits of int32.
"""

import math
import mmap
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Final

import torch
from torch import Tensor

from inference.hplm.pets.kind import PetKind
from inference.hplm.pets.kinds import kinds_of, tensor_shapes
from inference.hplm.pets.sparse import SparseKind, csr_entries
from inference.hplm.pets.spec import PLACES, PetSpec, UpperShape

if TYPE_CHECKING:
    from inference.hplm.pets.weights import PetWeights

PRIVATE: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
"""Neighbouring mappings of this kind count as one, of which a process may have some 65,000. All pages at once
take two thirds of the time of one by one."""


ALIGNMENT: Final = 16
"""Elements, of which numbers and positions take a multiple each in a row that has both."""


@dataclass(frozen=True)
class SparseTensor:
    """A sparse tensor of a PET: in each layer `count` entries of a matrix of `size` (out, in) count."""

    kind: SparseKind
    size: tuple[int, int]
    count: int

    @property
    def entries(self) -> int:
        """How many numbers `csr_entries` are of a layer."""
        return self.size[0] + 1 + self.count


@dataclass(frozen=True)
class PetLayout:
    """Where in a layer's row each tensor of such a PET lies. Down-projections of maps that read the same
    input lie side by side, so that one product computes them all."""

    spec: PetSpec
    shape: UpperShape

    @cached_property
    def offsets(self) -> dict[str, tuple[int, tuple[int, ...]]]:
        """By name: the index of the first element, and the shape in one layer."""
        found, start = {}, 0
        shapes = {name: size for name, (_, *size) in tensor_shapes(self.spec, self.shape)}
        for name, sparse in self.sparse.items():
            del shapes[name]
            if sparse.kind.has_values:
                shapes[f"{name}.values"] = [sparse.count]
        down = [f"lora.{place}.a" for place in PLACES if f"lora.{place}.a" in shapes]
        for name in [*down, *(name for name in shapes if name not in down)]:
            found[name] = (start, tuple(shapes[name]))
            start += math.prod(shapes[name])
        return found

    @cached_property
    def sparse(self) -> dict[str, SparseTensor]:
        """The sparse tensors by name."""
        return {
            name: SparseTensor(kind, (out, into), kind.count(self.spec, out * into))
            for kind in self.kinds
            if isinstance(kind, SparseKind)
            for name, (_, out, into) in kind.shapes(self.spec, self.shape)
        }

    @cached_property
    def kinds(self) -> tuple[PetKind, ...]:
        """What such a PET consists of."""
        return kinds_of(self.spec, self.shape)

    @cached_property
    def width(self) -> int:
        """The numbers of a layer."""
        return sum(math.prod(shape) for _, shape in self.offsets.values())

    def row_width(self, dtype: torch.dtype) -> int:
        """The elements of a row with numbers of this type: these, and the positions of sparse entries."""
        if not self.sparse:
            return self.width
        positions = sum(sparse.entries for sparse in self.sparse.values())
        return self._padded_width + -(-positions * 4 // dtype.itemsize // ALIGNMENT) * ALIGNMENT

    @property
    def _padded_width(self) -> int:
        return -(-self.width // ALIGNMENT) * ALIGNMENT

    @cached_property
    def _templates(self) -> list[Tensor]:
        return [torch.empty(shape, device="meta") for _, shape in self.offsets.values()]

    @cached_property
    def _sparse_templates(self) -> list[Tensor]:
        return [torch.empty(sparse.entries, device="meta") for sparse in self.sparse.values()]

    def views(self, row: Tensor) -> dict[str, Tensor]:
        """The tensors in a layer's row by name, without copies; of sparse ones, `csr_entries`. All at once: a
        view of its own for each takes three times as long."""
        views = torch._C._nn.unflatten_dense_tensors(row[: self.width], self._templates)
        found = dict(zip(self.offsets, views, strict=True))
        if self.sparse:
            positions = row[self._padded_width :].view(torch.int32)
            found |= zip(
                self.sparse,
                torch._C._nn.unflatten_dense_tensors(positions, self._sparse_templates),
                strict=True,
            )
        return found

    def shrink(self, row: Tensor, places: Iterable[str]) -> tuple[Tensor | None, Sequence[str]]:
        """The down-projections [k r, in] of the k maps among `places` that have a low-rank update, and which
        these are; None for none. `places` read one input and stand in the order of PLACES."""
        start, rows, inputs, changed = self._shrink_of(tuple(places))
        return (row.narrow(0, start, rows * inputs).view(rows, inputs) if changed else None), changed

    @cached_property
    def _shrink_of(self) -> Callable[[tuple[str, ...]], tuple[int, int, int, Sequence[str]]]:
        return cache(self._find_shrink)

    def _find_shrink(self, places: tuple[str, ...]) -> tuple[int, int, int, Sequence[str]]:
        """Where the down-projections of `shrink` begin, their rows and columns, and whose they are."""
        changed = [place for place in places if f"lora.{place}.a" in self.offsets]
        if not changed:
            return 0, 0, 0, changed
        start, (rank, inputs) = self.offsets[f"lora.{changed[0]}.a"]
        return start, len(changed) * rank, inputs, changed


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


@dataclass(frozen=True, slots=True, eq=False)
class PackedPet:
    """One PET in its layout: rows [L, width] of its `row_width`. key: of its copies on a device. It is the
    digest of its model, so that a model that was loaded again finds its copy."""

    layout: PetLayout
    rows: Tensor
    key: Hashable = field(default_factory=object)

    @classmethod
    def of(cls, pet: "PetWeights", dtype: torch.dtype, digest: str | None = None) -> "PackedPet":
        """A copy of the PET in that type, on the host. digest: of its model; None: it is like no other."""
        layout = shared_layout(pet.spec, pet.shape)
        width = layout.row_width(dtype)
        rows = _mapped(pet.shape.layers * width, dtype).view(pet.shape.layers, width)
        # By way of fp32: PyTorch converts fp16 to bf16 ten times as slowly on a CPU.
        rows[:, : layout.width].copy_(pet.numbers().float())
        for row, at in (
            zip(rows, zip(*pet.positions().values(), strict=True), strict=True) if layout.sparse else ()
        ):
            views = layout.views(row)
            for (name, sparse), positions in zip(layout.sparse.items(), at, strict=True):
                views[name].copy_(csr_entries(positions[None], sparse.size)[0])
        return cls(layout, rows, digest or object())


def _mapped(count: int, dtype: torch.dtype) -> Tensor:
    """Zeros [count] in a mapping of their own, which the system gets back when they are freed.

    In the heap, models that come and go would leave holes between the intermediate results of batches.
    """
    if not count:
        return torch.empty(0, dtype=dtype)
    return torch.frombuffer(mmap.mmap(-1, count * dtype.itemsize, flags=PRIVATE), dtype=dtype)


@lru_cache(1024)
def shared_layout(spec: PetSpec, shape: UpperShape) -> PetLayout:
    """A layout, shared by all PETs of the same spec and shape: a worker has thousands of them."""
    return PetLayout(spec, shape)
