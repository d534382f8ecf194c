"""The context mixer: a small block that gives composed states context from outside their fragments."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from inference.errors import HplmError
from inference.hplm.artifact_files import build_uninitialized, freeze, load_weights
from inference.hplm.attention import attention
from inference.hplm.bucketed_linear import linear
from inference.hplm.packed_attention import add_layout
from inference.hplm.sequences import GAP, PackedSequences
from inference.hplm.upload import Upload

HEAD_SIZE = 32
KERNEL = 2 * GAP + 1
"""Tokens that the depthwise convolution reads: this one and GAP on each side."""
LEVELS = 3
"""Levels of a token: its fragment was found whole, in part, or by its uni-gram alone (plot's HIT_*)."""
EPS = 1e-6


class ContextMixer(nn.Module):
    """A residual block over the composed states of each text: attention of a few narrow heads with a
    depthwise convolution on its values, then a feed-forward block, each behind a norm. The last norm gives
    states the size that the layers above expect: sums are too small where they know little. New, the mixer
    only normalises."""

    def __init__(self, hidden: int, *, width: int = 128, inner: int = 384) -> None:
        super().__init__()
        if width % HEAD_SIZE:
            raise HplmError("corrupt_artifact", f"a context mixer {width} wide; heads are {HEAD_SIZE} wide")
        self.heads = width // HEAD_SIZE
        self.levels = nn.Embedding(LEVELS, hidden)
        self.attention_norm = nn.LayerNorm(hidden, eps=EPS)
        self.query = nn.Linear(hidden, width)
        self.key = nn.Linear(hidden, width)
        self.value = nn.Linear(hidden, width)
        self.convolution = nn.Parameter(torch.zeros(KERNEL, width))
        self.output = nn.Linear(width, hidden)
        self.feed_norm = nn.LayerNorm(hidden, eps=EPS)
        self.expand = nn.Linear(hidden, inner)
        self.contract = nn.Linear(inner, hidden)
        self.output_norm = nn.LayerNorm(hidden, eps=EPS)
        for zero in (self.levels.weight, self.output.weight, self.output.bias):
            nn.init.zeros_(zero)
        nn.init.zeros_(self.contract.weight)
        nn.init.zeros_(self.contract.bias)

    @property
    def hidden(self) -> int:
        """The hidden size d."""
        return self.query.in_features

    @property
    def dtype(self) -> torch.dtype:
        return self.query.weight.dtype

    @property
    def device(self) -> torch.device:
        return self.query.weight.device

    def forward(self, states: Tensor, layout: Tensor | PackedSequences, levels: Tensor) -> Tensor:
        """Mixed states of the shape and dtype of `states`: [N, d] of packed sequences, or [B, T, d] with a
        mask [B, T] bool (true: a token). levels [N] or [B, T] int64: below LEVELS."""
        hidden = states.to(self.dtype) + self.levels(levels)
        normed = self.attention_norm(hidden)
        query, key, value = (_apply(part, normed) for part in (self.query, self.key, self.value))
        value = value + self._convolved(value, layout)
        mixed = attention(query, key, value, layout, self.heads)
        hidden = hidden + _apply(self.output, mixed)
        inner = functional.gelu(_apply(self.expand, self.feed_norm(hidden)))
        hidden = hidden + _apply(self.contract, inner)
        return self.output_norm(hidden).to(states.dtype)

    def add_layout(self, sequences: PackedSequences, upload: Upload) -> None:
        """Let what `forward` needs to know of packed sequences reach the device with that upload."""
        add_layout(sequences, upload, self.dtype, HEAD_SIZE)
        sequences.add_spaced(upload)

    def _convolved(self, value: Tensor, layout: Tensor | PackedSequences) -> Tensor:
        """The depthwise convolution over each sequence, of the shape of `value`."""
        if not isinstance(layout, PackedSequences):
            masked = value.masked_fill(~layout[..., None], 0)
            return self._weighted(functional.pad(masked, (0, 0, GAP, GAP)))
        places = layout.spaced(value.device)
        size = layout.tokens + GAP * (len(layout.lengths) + 1)
        spaced = value.new_zeros(size, value.shape[1])
        spaced[GAP:-GAP].index_copy_(0, places, value)
        return self._weighted(spaced).index_select(0, places)

    def _weighted(self, padded: Tensor) -> Tensor:
        """The weighted sums [..., T, w] over KERNEL neighbours of values [..., T + KERNEL - 1, w]."""
        kernel, count = self.convolution.to(padded.dtype), padded.shape[-2] - KERNEL + 1
        total = padded[..., :count, :] * kernel[0]
        for first in range(1, KERNEL):
            total = torch.addcmul(total, padded[..., first : first + count, :], kernel[first])
        return total

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> "ContextMixer":
        """The mixer with these weights, frozen, in float32 on the CPU; its sizes are those of the tensors.

        Raises HplmError(corrupt_artifact) if one is absent or misshapen.
        """
        mixer = build_uninitialized(lambda: cls.sized_as(tensors))
        load_weights(mixer, tensors, "context mixer")
        freeze(mixer)
        return mixer

    @classmethod
    def sized_as(cls, tensors: Mapping[str, Tensor]) -> "ContextMixer":
        """A new mixer of the sizes of these weights, which are those of `state_dict`.

        Raises HplmError(corrupt_artifact) where they contradict each other, before anything is allocated.
        """
        query, expand = (tensors.get(name) for name in ("query.weight", "expand.weight"))
        if query is None or expand is None or query.dim() != 2 or expand.dim() != 2:
            raise HplmError("corrupt_artifact", "context mixer: it has no queries, or nothing expands")
        if query.shape[1] != expand.shape[1] or not len(query):
            raise HplmError("corrupt_artifact", f"context mixer: {query.shape} and {expand.shape} do not fit")
        return cls(query.shape[1], width=len(query), inner=len(expand))


def _apply(module: nn.Linear, states: Tensor) -> Tensor:
    return linear(states, module.weight, module.bias)
