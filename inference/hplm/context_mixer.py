"""The context mixer: a small block that gives composed states context from outside their fragments."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from inference.errors import HplmError
from inference.hplm.artifact_files import build_uninitialized, freeze, load_weights
from inference.hplm.attention import attention
from inference.hplm.sequences import PackedSequences

HEAD_SIZE = 32
KERNEL = 5
"""Tokens that the depthwise convolution reads: this one and two on each side."""
LEVELS = 3
"""Levels of a token: its fragment was found whole, in part, or by its uni-gram alone (plot's HIT_*)."""
EPS = 1e-6


class ContextMixer(nn.Module):
    """A pre-norm residual block over the composed states of each text: attention of a few narrow heads with a
    depthwise convolution on its values, then a feed-forward block. New, it changes nothing."""

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

    def forward(self, states: Tensor, layout: Tensor | PackedSequences, levels: Tensor) -> Tensor:
        """Mixed states of the shape and dtype of `states`: [N, d] of packed sequences, or [B, T, d] with a
        mask [B, T] bool (true: a token). levels [N] or [B, T] int64: below LEVELS."""
        hidden = states.to(self.dtype) + self.levels(levels)
        normed = self.attention_norm(hidden)
        value = self.value(normed)
        value = value + self._neighbours(value, layout)
        mixed = attention(self.query(normed), self.key(normed), value, layout, self.heads)
        hidden = hidden + self.output(mixed)
        hidden = hidden + self.contract(functional.gelu(self.expand(self.feed_norm(hidden))))
        return hidden.to(states.dtype)

    def _neighbours(self, value: Tensor, layout: Tensor | PackedSequences) -> Tensor:
        """The depthwise convolution over each sequence, of the shape of `value`."""
        reach = KERNEL // 2
        if isinstance(layout, PackedSequences):
            lengths = torch.from_numpy(layout.ends - layout.starts).to(value.device)
            before = torch.from_numpy(layout.positions).to(value.device)
            after = torch.repeat_interleave(lengths, lengths) - 1 - before
        else:
            value = value.masked_fill(~layout[..., None], 0)
        total = value * self.convolution[reach]
        for away in range(1, reach + 1):
            earlier = functional.pad(value, (0, 0, away, -away))
            later = functional.pad(value, (0, 0, -away, away))
            if isinstance(layout, PackedSequences):
                earlier = earlier.masked_fill((before < away)[:, None], 0)
                later = later.masked_fill((after < away)[:, None], 0)
            total = total + earlier * self.convolution[reach - away] + later * self.convolution[reach + away]
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
