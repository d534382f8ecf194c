"""From contributions of fragments to token states (paper, equation 2), and the correction by context."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from inference.hplm.bucketed_linear import addmm
from inference.hplm.errors import HplmError
from inference.hplm.fragments import window_extent

TENSOR_NAMES: Final = ("position_bias", "type_bias", "context_down", "context_up")
CONTEXT_PARTS: Final = 4
"""A token's own sum, that of the one before, of the one after, and the mean of the text."""


@dataclass(frozen=True)
class Composition:
    """What enters after the sum. It belongs to a root and is the same for all tables below it.

    position_bias [max_tokens, d] and type_bias [types, d]: absolute positions and token types (paper, section
    3.3.1). context_down [4, d, r] and context_up [r, d]: a correction of low rank by what stands around,
    which no window of a few tokens sees.
    """

    position_bias: Tensor
    type_bias: Tensor
    context_down: Tensor
    context_up: Tensor

    def __post_init__(self) -> None:
        hidden, rank = self.hidden, self.context_up.shape[0]
        expected = {
            "type_bias": (*self.type_bias.shape[:1], hidden),
            "context_down": (CONTEXT_PARTS, hidden, rank),
            "context_up": (rank, hidden),
        }
        for name, shape in expected.items():
            found = tuple(getattr(self, name).shape)
            if found != shape:
                raise HplmError("corrupt_artifact", f"composition: {name} has shape {found}, not {shape}")

    @property
    def hidden(self) -> int:
        """The width d."""
        return self.position_bias.shape[1]

    @property
    def types(self) -> int:
        """How many token types there are."""
        return self.type_bias.shape[0]

    @cached_property
    def biases(self) -> Tensor:
        """[types + max_tokens, d]: how token types differ from the first, then positions with what is the
        first's."""
        first = self.type_bias[0]
        return torch.cat([self.type_bias - first, self.position_bias + first])

    @cached_property
    def context_across(self) -> Tensor:
        """`context_down` side by side [d, 4 r]."""
        return torch.cat([*self.context_down], 1)

    def tensors(self) -> dict[str, Tensor]:
        """The four tensors by name."""
        return {name: getattr(self, name) for name in TENSOR_NAMES}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> "Composition":
        """The inverse of `tensors`; HplmError(corrupt_artifact) when one is absent or misshapen."""
        absent = [name for name in TENSOR_NAMES if name not in tensors or tensors[name].dim() < 2]
        if absent:
            raise HplmError("corrupt_artifact", f"composition: {absent[0]} is missing or has no width")
        return cls(**{name: tensors[name] for name in TENSOR_NAMES})

    def to(self, device: torch.device | str, dtype: torch.dtype | None = None) -> "Composition":
        """A copy there, in that type (the same object's tensors where nothing changes)."""
        return Composition(**{name: value.to(device, dtype) for name, value in self.tensors().items()})

    def with_context_in(self, dtype: torch.dtype) -> "Composition":
        """A copy that computes the correction in that type, as the layers above compute; the sum stays as
        exact as it is."""
        down, up = self.context_down.to(dtype), self.context_up.to(dtype)
        return replace(self, context_down=down, context_up=up)


def compose(slots: Tensor, lengths: Tensor, parts: Composition, types: Tensor | None = None) -> Tensor:
    """Token states [B, T, d].

    First the sum of what a token's own fragment and its neighbours' say of it, `s_i = sum over k of
    V_{i + n//2 - k}[k]` (for n = 3 `V_{i-1}[2] + V_i[1] + V_{i+1}[0]`), with the biases of its position and
    type; then `h_i = s_i + (s_i D_0 + s_{i-1} D_1 + s_{i+1} D_2 + mean(s) D_3) U`.

    `slots` V [B, T, n, d] holds one row per token's own fragment; what stands at or past `lengths` [B] is
    ignored and comes out as zeros. types [B, T] int64 (default: zeros). The sum is in the wider type of
    `slots` and `parts` (float16 rows with float32 parts: float32).
    """
    tokens, n = slots.shape[1:3]
    left, right = window_extent(n)
    dtype = torch.promote_types(slots.dtype, parts.position_bias.dtype)
    lengths = lengths.to(slots.device)
    valid = torch.arange(tokens, device=slots.device) < lengths[:, None]
    values = slots.to(dtype).masked_fill(~valid[:, :, None, None], 0)
    states = values[:, :, left] + parts.position_bias[:tokens].to(dtype)
    for away in range(1, left + 1):  # the fragment `away` tokens later speaks of this one in an earlier slot
        states[:, :-away] += values[:, away:, left - away]
    for away in range(1, right + 1):
        states[:, away:] += values[:, :-away, left + away]
    bias = parts.type_bias.to(dtype)
    states = states + (bias[0] if types is None else bias[types])
    states = states.masked_fill(~valid[:, :, None], 0)
    if not len(parts.context_up):
        return states
    corrected = states + _context_correction(states, lengths, parts)
    return corrected.masked_fill(~valid[:, :, None], 0)


def _context_correction(states: Tensor, lengths: Tensor, parts: Composition) -> Tensor:
    """The correction [B, T, d] of sums [B, T, d] that are zero past the end of each text."""
    down, up = parts.context_down.to(states.dtype), parts.context_up.to(states.dtype)
    mean = states.sum(1, keepdim=True) / lengths.to(states.dtype)[:, None, None]
    own, before, after = (states @ down[part] for part in range(3))
    before = functional.pad(before, (0, 0, 1, -1))
    after = functional.pad(after, (0, 0, -1, 1))
    return (own + before + after + mean @ down[3]) @ up


Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class PackedLayout:
    """Texts end to end, N tokens of ``lengths`` [B] in all. speakers [N, n + 1, or n + 2 where there is more
    than one token type]: which of `source_vectors` a token's state is the sum of. These are made of ``rows``
    rows and the biases."""

    speakers: Ids
    lengths: Ids
    rows: int

    @property
    def starts(self) -> Ids:
        """Where each text begins [B]."""
        return np.cumsum(self.lengths) - self.lengths

    @property
    def longest(self) -> int:
        return int(self.lengths.max())


def pack_layout(place: Ids, lengths: Ids, types: Ids, *, n: int, rows: int, kinds: int) -> PackedLayout:
    """place [N]: which of the rows is the token's own fragment's; types [N], of ``kinds`` that there are."""
    # Behind the contributions stand the biases of types, the first of which is nothing, and of positions.
    nothing = rows * n
    of_text = np.repeat(np.arange(len(lengths)), lengths)
    at = np.arange(len(place)) - (np.cumsum(lengths) - lengths)[of_text]
    typed = bool(types.any())
    speakers = np.empty((len(place), n + 1 + typed), dtype=np.int64)
    for slot in range(n):
        away = window_extent(n)[0] - slot
        there = (at + away >= 0) & (at + away < lengths[of_text])
        speakers[:, slot] = np.where(there, np.roll(place, -away) * n + slot, nothing)
    speakers[:, n] = nothing + kinds + at
    if typed:
        speakers[:, n + 1] = nothing + types
    return PackedLayout(speakers, lengths, rows)


def source_vectors(rows: Tensor, layout: PackedLayout, parts: Composition) -> Tensor:
    """What the sums are made of [V, d]: the contributions ``rows`` [R, n, d], then those of types and of
    positions. Where `rows` has room behind those R, they are written there instead of copying it all."""
    n, hidden = rows.shape[1:]
    behind = parts.biases[: parts.types + layout.longest]
    # The kernel adds up in single precision; where the layers above are rougher than half precision, so may
    # be what it adds and gives.
    if parts.context_down.dtype == torch.float32 or rows.dtype != torch.float16:
        wide = torch.promote_types(rows.dtype, behind.dtype)
        return torch.cat([rows[: layout.rows].reshape(-1, hidden).to(wide), behind.to(wide)])
    flat, begin = rows.view(-1, hidden), layout.rows * n
    if len(flat) < begin + len(behind):
        return concatenate([flat[:begin], behind.to(flat.dtype)])
    flat[begin : begin + len(behind)] = behind
    return flat


def concatenate(tensors: Sequence[Tensor]) -> Tensor:
    """``torch.cat`` along the first dimension, also of float16 under CPU autocast, where ``torch.cat`` raises
    ``Unexpected floating ScalarType``."""
    with torch.autocast(tensors[0].device.type, enabled=False):
        return torch.cat(list(tensors))


def bias_rows(longest: int, types: int, n: int) -> int:
    """How many rows of n contributions the biases of texts of at most ``longest`` tokens take."""
    return -(-(longest + types) // n)


def compose_packed(contributions: Tensor, layout: PackedLayout, parts: Composition) -> Tensor:
    """Token states [N, d] of `source_vectors`, as `compose` makes them. Where `parts.context_down` is float32
    they are as exact, else they have its type, and each sum is rounded once."""
    device = contributions.device
    speakers = torch.from_numpy(layout.speakers).to(device)
    states = functional.embedding_bag(speakers, contributions, mode="sum")
    if not len(parts.context_up):
        return states
    # From half precision straight to bfloat16 a CPU takes five times as long.
    states = states.float().to(parts.context_down.dtype)
    return addmm(states, _context_features(states, layout, parts), parts.context_up)


def _context_features(states: Tensor, layout: PackedLayout, parts: Composition) -> Tensor:
    """What stands around each token, at low rank [N, r]."""
    rank, device = parts.context_down.shape[2], states.device
    first = torch.from_numpy(layout.starts).to(device)
    last = torch.from_numpy(layout.starts + layout.lengths - 1).to(device)
    across = addmm(states.new_zeros(4 * rank), states, parts.context_across)
    own, before, after, everywhere = torch.split(across, rank, 1)
    summed = own.clone()
    summed[1:] += before.index_fill_(0, last, 0)[:-1]
    summed[:-1] += after.index_fill_(0, first, 0)[1:]
    mean = functional.embedding_bag(
        torch.arange(len(states), device=device), everywhere.float(), first, mode="mean"
    )
    of_text = torch.from_numpy(np.repeat(np.arange(len(layout.lengths)), layout.lengths)).to(device)
    summed += mean.to(summed.dtype).index_select(0, of_text)
    return summed
