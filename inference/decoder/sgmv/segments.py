"""Segments of a step: which of its tokens use which LoRA (Punica, section 4)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from inference.decoder.lora import DecoderLora

Parts = Sequence[tuple[DecoderLora | None, int]]
"""The LoRA, or None, of neighbouring tokens and their number, in the order of the step's tokens."""


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """All tokens of a step that use one LoRA: the numbers of their rows, ascending."""

    lora: DecoderLora
    rows: tuple[int, ...]

    @property
    def is_contiguous(self) -> bool:
        """Whether the rows are neighbours."""
        return self.rows[-1] - self.rows[0] + 1 == len(self.rows)


@dataclass(frozen=True)
class Segments:
    """The segments of a step of `tokens` tokens, by their first token. Built once, used by all layers and
    projections. Tokens without a LoRA are in none of them."""

    tokens: int
    segments: tuple[Segment, ...]

    @classmethod
    def of(cls, parts: Parts) -> "Segments":
        """Parts with the same LoRA, neighbours or not, are one segment; empty parts belong to none."""
        rows: dict[DecoderLora, list[int]] = {}
        end = 0
        for lora, count in parts:
            begin, end = end, end + count
            if lora is not None and count:
                rows.setdefault(lora, []).extend(range(begin, end))
        return cls(end, tuple(Segment(lora, tuple(own)) for lora, own in rows.items()))

    @cached_property
    def rows(self) -> Tensor:
        """The numbers of the rows with a LoRA [R] int64, segment by segment, on the CPU."""
        return torch.tensor([row for segment in self.segments for row in segment.rows], dtype=torch.int64)
