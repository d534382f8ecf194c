"""The PET of one tenant on a decoder: LoRA on any projections, and adapters, of any layers."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from inference.decoder.lora_layout import (
    DecoderShape,
    FactorShape,
    LoraLayout,
    changed_maps,
    is_adapter,
    map_shape,
    shared_layout,
)
from inference.errors import HplmError
from inference.hplm.artifact_files import read_weights, write_weights
from inference.hplm.hplm import MAX_ADAPTER_WIDTH, MAX_RANK

LORA_FILE: Final = "lora.safetensors"
"""The file of a version's artifact."""
ROW: Final = "row"
RANKS: Final = "ranks"


@dataclass(frozen=True, eq=False)
class DecoderLora:
    """LoRA and adapters. LoRA adds x @ A @ B to projections of inputs x [T, in]; alpha / rank is folded into
    B. Adapters take the output of a projection as input, see `lora_layout.ADAPTERS`.

    All factors are views of one `row` [width], which is read, moved and copied as one tensor. Ranks, and
    widths of adapters, may differ by layer and projection.
    """

    layout: LoraLayout
    row: Tensor

    @classmethod
    def of(
        cls,
        tensors: Mapping[tuple[int, str], tuple[Tensor, Tensor]],
        shape: DecoderShape,
        code: str = "corrupt_artifact",
    ) -> "DecoderLora":
        """Copy the factors A [in, rank] and B [rank, out] of each layer and projection or adapter, in the
        dtype of the first.

        Raises HplmError with `code` if there are none, if the decoder has no such layer or projection, or if
        the factors are of another shape or not finite.
        """
        if not tensors:
            raise HplmError(code, "LoRA: no projection is changed")
        for key, (a, b) in tensors.items():
            _check_factors(key, a, b, shape, code)
        names = changed_maps(shape)
        ordered = sorted(tensors, key=lambda key: (key[0], names.index(key[1])))
        layout = shared_layout(
            tuple(
                _factor_shape(shape, layer, name, tensors[layer, name][0].shape[1]) for layer, name in ordered
            )
        )
        first = tensors[ordered[0]][0]
        row = torch.zeros(layout.width, dtype=first.dtype, device=first.device)
        for key, (own_a, own_b) in layout.views(row).items():
            a, b = tensors[key]
            own_a.copy_(a.detach())
            own_b.copy_(b.detach())
        return cls(layout, row)

    @cached_property
    def tensors(self) -> Mapping[tuple[int, str], tuple[Tensor, Tensor]]:
        """A [in, rank] and B [rank, out] by layer and projection or adapter: views of the row."""
        return self.layout.views(self.row)

    @property
    def bytes(self) -> int:
        """The size of the factors."""
        return self.row.nbytes

    @property
    def lowest_layer(self) -> int:
        """The lowest layer with a LoRA or an adapter."""
        return self.layout.factors[0].layer

    @property
    def has_adapters(self) -> bool:
        """Whether it has adapters besides or instead of LoRA."""
        return any(is_adapter(factor.projection) for factor in self.layout.factors)

    def to(
        self, device: torch.device | str, dtype: torch.dtype, *, non_blocking: bool = False
    ) -> "DecoderLora":
        """The LoRA on `device` in `dtype`; itself if nothing changes."""
        row = self.row.to(device=device, dtype=dtype, non_blocking=non_blocking)
        return self if row is self.row else DecoderLora(self.layout, row)

    def save(self, path: Path, shape: DecoderShape) -> None:
        """Write a safetensors file: the row, and the rank of each layer and projection or adapter (0:
        none)."""
        names = changed_maps(shape)
        ranks = torch.zeros(shape.layers, len(names), dtype=torch.int32)
        for factor in self.layout.factors:
            ranks[factor.layer, names.index(factor.projection)] = factor.rank
        write_weights(path, {ROW: self.row, RANKS: ranks})

    @classmethod
    def load(cls, path: Path, shape: DecoderShape) -> "DecoderLora":
        """Read a file that `save` wrote, also one from before adapters existed, in its dtype on the CPU.
        Raises HplmError(corrupt_artifact) if the file is damaged, has other tensors, or does not fit the
        decoder."""
        stored = read_weights(path)
        if stored.keys() != {ROW, RANKS}:
            odd = sorted(stored.keys() ^ {ROW, RANKS})[0]
            raise _corrupt(f"{odd[:60]!r} is missing or unexpected in {path.name}")
        layout = shared_layout(tuple(_stored_shapes(stored[RANKS], shape)))
        row = stored[ROW]
        if not row.is_floating_point() or tuple(row.shape) != (layout.width,):
            raise _corrupt(
                f"{ROW} has shape {tuple(row.shape)} and type {row.dtype}; expected ({layout.width},) and a "
                "floating-point type"
            )
        return cls(layout, row)


def largest_rank(name: str) -> int:
    """The maximum rank of a projection's LoRA, or the maximum width of an adapter."""
    return MAX_ADAPTER_WIDTH if is_adapter(name) else MAX_RANK


def _stored_shapes(ranks: Tensor, shape: DecoderShape) -> list[FactorShape]:
    names = changed_maps(shape)
    expected = (shape.layers, len(names))
    # Files from before adapters existed have no columns for them.
    if tuple(ranks.shape) == (shape.layers, len(shape.projections)):
        names, expected = shape.projections, (shape.layers, len(shape.projections))
    if ranks.dtype != torch.int32 or tuple(ranks.shape) != expected:
        raise _corrupt(
            f"{RANKS} has shape {tuple(ranks.shape)} and type {ranks.dtype}; expected {expected} and "
            "torch.int32"
        )
    for name, found in zip(names, ranks.t(), strict=True):
        least, most = int(found.min()), int(found.max())
        if not 0 <= least <= most <= largest_rank(name):
            raise _corrupt(
                f"{RANKS} of {name} are {least} to {most}; they must be between 0 and {largest_rank(name)}"
            )
    if not bool(ranks.any()):
        raise _corrupt("no projection is changed")
    return [
        _factor_shape(shape, layer, name, rank)
        for layer, row in enumerate(ranks.tolist())
        for name, rank in zip(names, row, strict=True)
        if rank
    ]


def _factor_shape(shape: DecoderShape, layer: int, name: str, rank: int) -> FactorShape:
    inputs, outputs = map_shape(shape, name)
    return FactorShape(layer, name, inputs, rank, outputs)


def _check_factors(key: tuple[int, str], a: Tensor, b: Tensor, shape: DecoderShape, code: str) -> None:
    layer, projection = key
    if projection not in changed_maps(shape):
        known = ", ".join(shape.projections)
        raise HplmError(code, f"LoRA: unknown projection {projection[:60]!r}; the projections are {known}")
    name = f"LoRA of layer {layer}, {projection}"
    if not 0 <= layer < shape.layers:
        raise HplmError(code, f"{name}: the decoder has layers 0 to {shape.layers - 1}")
    inputs, outputs = map_shape(shape, projection)
    rank = a.shape[-1] if a.dim() else 0
    if tuple(a.shape) != (inputs, rank) or tuple(b.shape) != (rank, outputs):
        found = f"{tuple(a.shape)} and {tuple(b.shape)}"
        raise HplmError(
            code, f"{name}: A and B have shapes {found}; expected ({inputs}, rank) and (rank, {outputs})"
        )
    if not 1 <= rank <= largest_rank(projection):
        limit = largest_rank(projection)
        raise HplmError(code, f"{name}: the rank is {rank}; it must be between 1 and {limit}")
    for factor in (a, b):
        if not factor.is_floating_point():
            raise HplmError(code, f"{name}: the type is {factor.dtype}; it must be a floating-point type")
        if not bool(torch.isfinite(factor).all()):
            raise HplmError(code, f"{name}: the factors contain NaN or infinite values")


def _corrupt(message: str) -> HplmError:
    return HplmError("corrupt_artifact", f"LoRA: {message}")
