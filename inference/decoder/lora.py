"""The LoRA of one tenant on a decoder: low-rank updates of any projections of any layers."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from inference.decoder.lora_layout import DecoderShape, FactorShape, LoraLayout, shared_layout
from inference.errors import HplmError
from inference.hplm.artifact_files import read_weights, write_weights
from inference.hplm.hplm import MAX_RANK

LORA_FILE: Final = "lora.safetensors"
"""The file of a version's artifact."""
ROW: Final = "row"
RANKS: Final = "ranks"


@dataclass(frozen=True, eq=False)
class DecoderLora:
    """Adds x @ A @ B to projections of inputs x [T, in]; alpha / rank is folded into B.

    All factors are views of one `row` [width]: what computes is read, moved and copied as one. Ranks may
    differ by layer and projection.
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
        """Copy the factors A [in, rank] and B [rank, out] of each layer and projection, in the dtype of the
        first.

        Raises HplmError with `code` if there are none, if the decoder has no such layer or projection, or if
        the factors are of another shape or not finite.
        """
        if not tensors:
            raise HplmError(code, "LoRA: it changes no projection")
        for key, (a, b) in tensors.items():
            _check_factors(key, a, b, shape, code)
        ordered = sorted(tensors, key=lambda key: (key[0], shape.projections.index(key[1])))
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
        """A [in, rank] and B [rank, out] by layer and projection: views of the row."""
        return self.layout.views(self.row)

    @property
    def bytes(self) -> int:
        """The size of the factors."""
        return self.row.nbytes

    @property
    def lowest_layer(self) -> int:
        """The lowest layer that it changes."""
        return self.layout.factors[0].layer

    def to(
        self, device: torch.device | str, dtype: torch.dtype, *, non_blocking: bool = False
    ) -> "DecoderLora":
        """The LoRA on `device` in `dtype`; itself if nothing changes."""
        row = self.row.to(device=device, dtype=dtype, non_blocking=non_blocking)
        return self if row is self.row else DecoderLora(self.layout, row)

    def save(self, path: Path, shape: DecoderShape) -> None:
        """Write a safetensors file: the row, and the rank of each layer and projection (0: unchanged)."""
        ranks = torch.zeros(shape.layers, len(shape.projections), dtype=torch.int32)
        for factor in self.layout.factors:
            ranks[factor.layer, shape.projections.index(factor.projection)] = factor.rank
        write_weights(path, {ROW: self.row, RANKS: ranks})

    @classmethod
    def load(cls, path: Path, shape: DecoderShape) -> "DecoderLora":
        """Read what `save` wrote, in its dtype on the CPU. Raises HplmError(corrupt_artifact) if the file is
        damaged, holds anything else, or does not fit the decoder."""
        stored = read_weights(path)
        if stored.keys() != {ROW, RANKS}:
            odd = sorted(stored.keys() ^ {ROW, RANKS})[0]
            raise _corrupt(f"{path.name}: {odd[:60]!r} is missing or not expected")
        layout = shared_layout(tuple(_stored_shapes(stored[RANKS], shape)))
        row = stored[ROW]
        if not row.is_floating_point() or tuple(row.shape) != (layout.width,):
            raise _corrupt(f"{ROW} has shape {tuple(row.shape)} and type {row.dtype}, not ({layout.width},)")
        return cls(layout, row)


def _stored_shapes(ranks: Tensor, shape: DecoderShape) -> list[FactorShape]:
    expected = (shape.layers, len(shape.projections))
    if ranks.dtype != torch.int32 or tuple(ranks.shape) != expected:
        raise _corrupt(f"{RANKS} has shape {tuple(ranks.shape)} and type {ranks.dtype}, not {expected}")
    if not 0 <= int(ranks.min()) <= int(ranks.max()) <= MAX_RANK:
        raise _corrupt(f"{RANKS} from {int(ranks.min())} to {int(ranks.max())}; 0 to {MAX_RANK} are served")
    if not bool(ranks.any()):
        raise _corrupt("it changes no projection")
    return [
        _factor_shape(shape, layer, projection, rank)
        for layer, row in enumerate(ranks.tolist())
        for projection, rank in zip(shape.projections, row, strict=True)
        if rank
    ]


def _factor_shape(shape: DecoderShape, layer: int, projection: str, rank: int) -> FactorShape:
    inputs, outputs = shape.projection_shape(projection)
    return FactorShape(layer, projection, inputs, rank, outputs)


def _check_factors(key: tuple[int, str], a: Tensor, b: Tensor, shape: DecoderShape, code: str) -> None:
    layer, projection = key
    if projection not in shape.projections:
        known = ", ".join(shape.projections)
        raise HplmError(code, f"LoRA: no projection {projection[:60]!r}; the projections are {known}")
    name = f"LoRA of layer {layer}, {projection}"
    if not 0 <= layer < shape.layers:
        raise HplmError(code, f"{name}: the decoder has {shape.layers} layers")
    inputs, outputs = shape.projection_shape(projection)
    rank = a.shape[-1] if a.dim() else 0
    if tuple(a.shape) != (inputs, rank) or tuple(b.shape) != (rank, outputs):
        found = f"{tuple(a.shape)} and {tuple(b.shape)}"
        raise HplmError(code, f"{name}: shapes {found}, not ({inputs}, rank) and (rank, {outputs})")
    if not 1 <= rank <= MAX_RANK:
        raise HplmError(code, f"{name}: rank {rank}; ranks from 1 to {MAX_RANK} are served")
    for factor in (a, b):
        if not factor.is_floating_point():
            raise HplmError(code, f"{name}: stored as {factor.dtype}")
        if not bool(torch.isfinite(factor).all()):
            raise HplmError(code, f"{name}: holds NaN or infinite numbers")


def _corrupt(message: str) -> HplmError:
    return HplmError("corrupt_artifact", f"LoRA: {message}")
