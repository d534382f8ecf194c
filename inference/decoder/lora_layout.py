"""Where the factors of a decoder's LoRA and adapters lie in memory: all in one row of numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, Protocol

from torch import Tensor

ADAPTERS: Final = {"output": "adapter", "down": "output_adapter"}
"""The bottleneck adapter behind a projection, which changes the projection's outputs y to
y + relu(y @ A) @ B before they are added to the layer's states (Houlsby et al. 2019, without biases)."""
INPUT_OF: Final = {
    "query": "attention", "key": "attention", "value": "attention", "output": "output",
    "gate": "feed_forward", "up": "feed_forward", "down": "down",
    "adapter": "adapter", "output_adapter": "output_adapter",
}  # fmt: skip
"""The input that a projection or an adapter reads. One product with the factors A of all that read it shrinks
it."""
COLUMN_MULTIPLE: Final = 4
"""Zeros fill factors A up to such a number of columns. With 5, for instance, MKL adds up a row in an order
that depends on its place among the others."""


class DecoderShape(Protocol):
    """The number of layers of a decoder, the names of their projections, and the size of each."""

    @property
    def layers(self) -> int: ...

    @property
    def projections(self) -> tuple[str, ...]: ...

    def projection_shape(self, projection: str) -> tuple[int, int]:
        """(in, out) of a projection of any layer."""
        ...


def changed_maps(shape: DecoderShape) -> tuple[str, ...]:
    """The names of all that has factors in a layer: the projections, for LoRA, then the adapters."""
    return (*shape.projections, *ADAPTERS.values())


def map_shape(shape: DecoderShape, name: str) -> tuple[int, int]:
    """(in, out) of a projection or an adapter of any layer."""
    for projection, adapter in ADAPTERS.items():
        if name == adapter:
            return (shape.projection_shape(projection)[1],) * 2
    return shape.projection_shape(name)


def is_adapter(name: str) -> bool:
    """Whether that is the name of an adapter, not of a projection."""
    return name in ADAPTERS.values()


@dataclass(frozen=True, slots=True)
class FactorShape:
    """The sizes of the factors A [inputs, rank] and B [rank, outputs] of one projection, or adapter, of one
    layer. The rank of an adapter is its width."""

    layer: int
    projection: str
    inputs: int
    rank: int
    outputs: int


@dataclass(frozen=True, slots=True)
class ShrinkBlock:
    """Factors A of a layer's projections that read the same input, side by side: [inputs, columns] from
    number `offset` of the row."""

    offset: int
    inputs: int
    columns: int

    def view(self, row: Tensor) -> Tensor:
        """The block in a LoRA's row [width], or [n, inputs, columns] in the rows [n, width] of several."""
        return _view(row, self.offset, self.inputs, self.columns)


@dataclass(frozen=True, slots=True)
class ExpandBlock:
    """The factor B [rank, outputs] of a projection or an adapter, from number `offset` of the row. Its A is
    in columns `begin` to `begin + rank` of `shrink`. has_relu: whether a ReLU is between A and B."""

    shrink: ShrinkBlock
    offset: int
    begin: int
    rank: int
    outputs: int
    has_relu: bool

    def view(self, row: Tensor) -> Tensor:
        """The factor in a LoRA's row [width], or [n, rank, outputs] in the rows [n, width] of several."""
        return _view(row, self.offset, self.rank, self.outputs)


@dataclass(frozen=True, eq=False)
class LoraLayout:
    """The places of all factors in a row of `width` numbers. LoRAs with factors of the same shapes share one
    layout: see `shared_layout`."""

    factors: tuple[FactorShape, ...]

    @property
    def shrinks(self) -> Mapping[tuple[int, str], ShrinkBlock]:
        """The shrink blocks by layer and input (see INPUT_OF)."""
        return self._blocks[0]

    @property
    def expands(self) -> Mapping[tuple[int, str], ExpandBlock]:
        """The factors B by layer and projection or adapter."""
        return self._blocks[1]

    @property
    def width(self) -> int:
        """How many numbers a row has."""
        return self._blocks[2]

    @cached_property
    def smallest_factor(self) -> int:
        """The least numbers that a product reads of a LoRA."""
        shrinks = [block.inputs * block.columns for block in self.shrinks.values()]
        return min(shrinks + [block.rank * block.outputs for block in self.expands.values()])

    @cached_property
    def _blocks(
        self,
    ) -> tuple[dict[tuple[int, str], ShrinkBlock], dict[tuple[int, str], ExpandBlock], int]:
        readers: dict[tuple[int, str], list[FactorShape]] = {}
        for factor in self.factors:
            readers.setdefault((factor.layer, INPUT_OF[factor.projection]), []).append(factor)
        shrinks, expands, end = {}, {}, 0
        for key, factors in readers.items():
            columns = -(-sum(factor.rank for factor in factors) // COLUMN_MULTIPLE) * COLUMN_MULTIPLE
            shrinks[key] = ShrinkBlock(end, factors[0].inputs, columns)
            end += factors[0].inputs * columns
            begin = 0
            for factor in factors:
                place = factor.layer, factor.projection
                expands[place] = ExpandBlock(
                    shrinks[key], end, begin, factor.rank, factor.outputs, is_adapter(factor.projection)
                )
                end += factor.rank * factor.outputs
                begin += factor.rank
        return shrinks, expands, end

    def views(self, row: Tensor) -> dict[tuple[int, str], tuple[Tensor, Tensor]]:
        """A [in, rank] and B [rank, out] by layer and projection or adapter in a row [width], without
        copies."""
        return {
            place: (block.shrink.view(row).narrow(-1, block.begin, block.rank), block.view(row))
            for place, block in self.expands.items()
        }


@lru_cache(1024)
def shared_layout(factors: tuple[FactorShape, ...]) -> LoraLayout:
    """The layout of factors in the order of layers and `changed_maps`; one object for equal factors."""
    return LoraLayout(factors)


def _view(row: Tensor, offset: int, rows: int, columns: int) -> Tensor:
    start = row.storage_offset() + offset
    if row.dim() == 1:
        return row.as_strided((rows, columns), (columns, 1), start)
    return row.as_strided((len(row), rows, columns), (row.stride(0), columns, 1), start)
