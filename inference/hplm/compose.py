"""Composes token states from the vectors of overlapping fragments (paper, equation 2)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from inference.errors import HplmError
from inference.hplm.artifact_files import select_prefix
from inference.hplm.bucketed_linear import addmm
from inference.hplm.context_mixer import ContextMixer
from inference.hplm.fragments import window_extent
from inference.hplm.shared_mixers import mixer_on, shared_mixer
from inference.hplm.upload import Upload, Uploaded

TENSOR_NAMES: Final = ("position_bias", "type_bias", "context_down", "context_up")
MIXER_PREFIX: Final = "mixer."
CONTEXT_PARTS: Final = 4
"""Inputs of the context correction: the sums of the token and its two neighbours, and the mean."""


@dataclass(frozen=True)
class Composition:
    """What makes states of the sums of fragment vectors.

    position_bias [max_tokens, d] and type_bias [types, d]: for absolute positions and token types (paper,
    section 3.3.1). mixer: gives the sums context from outside their fragments. context_down [4, d, r] and
    context_up [r, d]: a low-rank correction in its place, of older roots; of others r is 0. All are
    floating-point tensors.
    """

    position_bias: Tensor
    type_bias: Tensor
    context_down: Tensor
    context_up: Tensor
    mixer: ContextMixer | None = None

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
        if self.mixer is not None and self.mixer.hidden != hidden:
            raise HplmError(
                "corrupt_artifact", f"context mixer: it is {self.mixer.hidden} wide, not {hidden}"
            )

    @property
    def hidden(self) -> int:
        """The hidden size d."""
        return self.position_bias.shape[1]

    @property
    def types(self) -> int:
        """The number of token types."""
        return self.type_bias.shape[0]

    @cached_property
    def biases(self) -> Tensor:
        """[types + max_tokens, d]: the type biases minus the first one, then the position biases plus it."""
        first = self.type_bias[0]
        return torch.cat([self.type_bias - first, self.position_bias + first])

    @cached_property
    def context_down_flat(self) -> Tensor:
        """`context_down` as one matrix [d, 4 r]."""
        return torch.cat([*self.context_down], 1)

    def tensors(self) -> dict[str, Tensor]:
        """All tensors by name, those of the mixer as `mixer.*`."""
        of_mixer = {} if self.mixer is None else self.mixer.state_dict(keep_vars=True)
        named = {name: getattr(self, name) for name in TENSOR_NAMES}
        return named | {MIXER_PREFIX + name: value for name, value in of_mixer.items()}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> "Composition":
        """The inverse of `tensors`, on the CPU; HplmError(corrupt_artifact) when one is absent or misshapen.
        Equal mixers are one object."""
        absent = [name for name in TENSOR_NAMES if name not in tensors or tensors[name].dim() < 2]
        if absent:
            raise HplmError("corrupt_artifact", f"composition: {absent[0]} is missing or has no width")
        of_mixer = select_prefix(tensors, MIXER_PREFIX)
        mixer = shared_mixer(of_mixer) if of_mixer else None
        return cls(**{name: tensors[name] for name in TENSOR_NAMES}, mixer=mixer)

    def to(self, device: torch.device | str, dtype: torch.dtype | None = None) -> "Composition":
        """A copy on ``device`` in ``dtype``. Tensors that do not change are shared."""
        moved = {name: getattr(self, name).to(device, dtype) for name in TENSOR_NAMES}
        return Composition(**moved, mixer=self.mixer and mixer_on(self.mixer, device, dtype))

    def with_context_dtype(self, dtype: torch.dtype) -> "Composition":
        """A copy that computes context in ``dtype``. The biases keep their dtype."""
        down, up = self.context_down.to(dtype), self.context_up.to(dtype)
        mixer = self.mixer and mixer_on(self.mixer, down.device, dtype)
        return replace(self, context_down=down, context_up=up, mixer=mixer)


def compose(
    slots: Tensor,
    lengths: Tensor,
    composition: Composition,
    types: Tensor | None = None,
    levels: Tensor | None = None,
) -> Tensor:
    """Token states [B, T, d] of the vectors of fragments; differentiable.

    A token's sum `s_i` adds the slots that its own and the neighbouring fragments have for it: `s_i = sum
    over k of V_{i + n//2 - k}[k]` (for n = 3 `V_{i-1}[2] + V_i[1] + V_{i+1}[0]`), plus the biases of its
    position and type. Its state is what the mixer makes of the sums of its text; without one `h_i = s_i +
    (s_i D_0 + s_{i-1} D_1 + s_{i+1} D_2 + mean(s) D_3) U`.

    slots: V [B, T, n, d], the vectors of each token's fragment. lengths [B] int64: padding is ignored and
    becomes zeros. types [B, T] int64 (default: zeros). levels [B, T] int64: plot's HIT_* of each token's
    fragment, which a mixer needs. The result has the wider dtype of ``slots`` and ``composition`` (float16
    with float32: float32).
    """
    tokens, n = slots.shape[1:3]
    left, right = window_extent(n)
    dtype = torch.promote_types(slots.dtype, composition.position_bias.dtype)
    lengths = lengths.to(slots.device)
    valid = torch.arange(tokens, device=slots.device) < lengths[:, None]
    values = slots.to(dtype).masked_fill(~valid[:, :, None, None], 0)
    states = values[:, :, left] + composition.position_bias[:tokens].to(dtype)
    for away in range(1, left + 1):  # a later fragment has this token in an earlier slot
        states[:, :-away] += values[:, away:, left - away]
    for away in range(1, right + 1):
        states[:, away:] += values[:, :-away, left + away]
    bias = composition.type_bias.to(dtype)
    states = states + (bias[0] if types is None else bias[types])
    states = states.masked_fill(~valid[:, :, None], 0)
    if len(composition.context_up):
        states = states + _context_correction(states, lengths, composition)
    if composition.mixer is not None:
        if levels is None:
            raise HplmError("internal", "a context mixer needs the level of each token")
        states = composition.mixer(states, valid, levels)
    return states.masked_fill(~valid[:, :, None], 0)


def _context_correction(states: Tensor, lengths: Tensor, composition: Composition) -> Tensor:
    """The context correction [B, T, d] of sums [B, T, d], which are zero in the padding."""
    down, up = composition.context_down.to(states.dtype), composition.context_up.to(states.dtype)
    mean = states.sum(1, keepdim=True) / lengths.to(states.dtype)[:, None, None]
    own, before, after = (states @ down[part] for part in range(3))
    before = functional.pad(before, (0, 0, 1, -1))
    after = functional.pad(after, (0, 0, -1, 1))
    return (own + before + after + mean @ down[3]) @ up


Ids = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PackedLayout:
    """Packed texts: N tokens without padding, of texts of ``lengths`` [B] int64.

    sources [N, n + 1] int64 ([N, n + 2] if a token has another type than 0): the indices in `source_vectors`
    whose sum is a token's state. rows: the number of fragments that the source vectors start with.
    """

    sources: Ids
    lengths: Ids
    rows: int

    @property
    def starts(self) -> Ids:
        """The index of each text's first token [B] int64."""
        return np.cumsum(self.lengths) - self.lengths

    def add_to(self, upload: Upload) -> None:
        """Let all that composing needs of the layout reach the device with that upload."""
        starts = self.starts
        text_of = np.repeat(np.arange(len(starts)), self.lengths)
        indices = (self.sources, starts, starts + self.lengths - 1, text_of)
        self._uploaded[upload.device] = LayoutIndices(*map(upload.add, indices))

    def on(self, device: torch.device) -> "LayoutIndices":
        """What composing needs of the layout, on the device."""
        if device not in self._uploaded:
            self.add_to(Upload(device))
        return self._uploaded[device]

    @cached_property
    def _uploaded(self) -> "dict[torch.device, LayoutIndices]":
        return {}

    @property
    def max_length(self) -> int:
        """Tokens of the longest text."""
        return int(self.lengths.max())


@dataclass(frozen=True, slots=True, eq=False)
class LayoutIndices:
    """Indices of a `PackedLayout` on a device, all int64: its sources, each text's first and last token [B],
    and the text of each token [N]."""

    sources: Uploaded
    first: Uploaded
    last: Uploaded
    text_of: Uploaded


def pack_layout(
    row_index: Ids, lengths: Ids, types: Ids, *, n: int, rows: int, type_count: int
) -> PackedLayout:
    """The layout of packed texts of ``lengths`` [B] int64.

    row_index [N] int64, below ``rows``: the row of each token's fragment. types [N] int64, below
    ``type_count``.
    """
    # The slots of the rows come first, then the biases of types, of which the first is zero, then positions.
    zero = rows * n
    text_of = np.repeat(np.arange(len(lengths)), lengths)
    position = np.arange(len(row_index)) - (np.cumsum(lengths) - lengths)[text_of]
    typed = bool(types.any())
    sources = np.empty((len(row_index), n + 1 + typed), dtype=np.int64)
    for slot in range(n):
        away = window_extent(n)[0] - slot
        exists = (position + away >= 0) & (position + away < lengths[text_of])
        sources[:, slot] = np.where(exists, np.roll(row_index, -away) * n + slot, zero)
    sources[:, n] = zero + type_count + position
    if typed:
        sources[:, n + 1] = zero + types
    return PackedLayout(sources, lengths, rows)


def source_vectors(rows: Tensor, layout: PackedLayout, composition: Composition) -> Tensor:
    """The vectors [V, d] that states are sums of: ``rows`` [R, n, d], then the biases of types and positions.

    The dtype is float16 if ``rows`` are and the context correction is not float32, else the wider one. Where
    ``rows`` has room after its first ``layout.rows``, the biases are written there, without a copy.
    """
    n, hidden = rows.shape[1:]
    biases = composition.biases[: composition.types + layout.max_length]
    # embedding_bag accumulates in float32. Float16 sums suffice where the upper layers use lower precision.
    if composition.context_down.dtype == torch.float32 or rows.dtype != torch.float16:
        dtype = torch.promote_types(rows.dtype, biases.dtype)
        return torch.cat([rows[: layout.rows].reshape(-1, hidden).to(dtype), biases.to(dtype)])
    flat, begin = rows.view(-1, hidden), layout.rows * n
    if len(flat) < begin + len(biases):
        return concatenate([flat[:begin], biases.to(flat.dtype)])
    flat[begin : begin + len(biases)] = biases
    return flat


def concatenate(tensors: Sequence[Tensor]) -> Tensor:
    """``torch.cat`` along the first dimension, also of float16 under CPU autocast, where ``torch.cat`` raises
    ``Unexpected floating ScalarType``."""
    with torch.autocast(tensors[0].device.type, enabled=False):
        return torch.cat(list(tensors))


def bias_rows(max_length: int, types: int, n: int) -> int:
    """The number of rows [n, d] that the biases take, for texts of at most ``max_length`` tokens."""
    return -(-(max_length + types) // n)


def compose_packed(vectors: Tensor, layout: PackedLayout, composition: Composition) -> Tensor:
    """Token states [N, d] of `source_vectors` [V, d]: as `compose`, for packed texts, without the mixer.

    They have the dtype of ``composition.context_down``; without a context correction that of ``vectors``.
    """
    sources = layout.on(vectors.device).sources.tensor
    states = functional.embedding_bag(sources, vectors, mode="sum")
    if not len(composition.context_up):
        return states
    # A CPU converts float16 to bfloat16 five times as fast by way of float32.
    states = states.float().to(composition.context_down.dtype)
    return addmm(states, _context_features(states, layout, composition), composition.context_up)


def _context_features(states: Tensor, layout: PackedLayout, composition: Composition) -> Tensor:
    """The low-rank features [N, r] of each token's context."""
    rank, device = composition.context_down.shape[2], states.device
    indices = layout.on(device)
    first, last = indices.first.tensor, indices.last.tensor
    projected = addmm(states.new_zeros(4 * rank), states, composition.context_down_flat)
    own, before, after, whole_text = torch.split(projected, rank, 1)
    summed = own.clone()
    summed[1:] += before.index_fill_(0, last, 0)[:-1]
    summed[:-1] += after.index_fill_(0, first, 0)[1:]
    mean = functional.embedding_bag(
        torch.arange(len(states), device=device), whole_text.float(), first, mode="mean"
    )
    summed += mean.to(summed.dtype).index_select(0, indices.text_of.tensor)
    return summed
