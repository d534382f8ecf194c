"""A causal context mixer: it gives looked-up states of a decoder context from before their fragments."""

from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional

from inference.decoder.decoder import Attention
from inference.decoder.rotary import Rotary, Rotation, rotate
from inference.hplm.context_mixer import LEVELS

HEAD_SIZE: Final = 64
KERNEL: Final = 4
"""Tokens that the depthwise convolution reads: this one and those before it."""
THETA: Final = 10_000.0
POSITIONS: Final = 1024
EPS: Final = 1e-5


class MixerBlock(nn.Module):
    """A pre-norm block as `ContextMixer`, causal: rotary attention with fewer heads for keys and values, a
    depthwise convolution on the values, and a gated feed-forward block. New, it changes nothing."""

    def __init__(self, hidden: int, width: int, kv_width: int, inner: int) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(hidden, eps=EPS)
        self.query = nn.Linear(hidden, width)
        self.key = nn.Linear(hidden, kv_width)
        self.value = nn.Linear(hidden, kv_width)
        self.convolution = nn.Parameter(torch.zeros(KERNEL, kv_width))
        self.output = nn.Linear(width, hidden)
        self.feed_norm = nn.RMSNorm(hidden, eps=EPS)
        self.expand = nn.Linear(hidden, 2 * inner)
        self.contract = nn.Linear(inner, hidden)
        for zero in (self.output, self.contract):
            nn.init.zeros_(zero.weight)
            nn.init.zeros_(zero.bias)
        with torch.no_grad():
            self.convolution[0] = 1.0

    def forward(
        self,
        states: Tensor,
        positions: Tensor,
        rotation: Rotation,
        attention: Attention,
        at: int,
    ) -> Tensor:
        """States [N, hidden] of block number `at`, which is what `attention` takes for a layer."""
        normed = self.attention_norm(states)
        query, key = (
            rotate(project(normed).view(len(states), -1, HEAD_SIZE), rotation)
            for project in (self.query, self.key)
        )
        value = self._convolve(self.value(normed), positions).view(len(states), -1, HEAD_SIZE)
        states = states + self.output(attention(at, query, key, value).flatten(1))
        gate, inner = self.expand(self.feed_norm(states)).chunk(2, dim=1)
        fed: Tensor = states + self.contract(functional.silu(gate) * inner)
        return fed

    def _convolve(self, value: Tensor, positions: Tensor) -> Tensor:
        total = value * self.convolution[0]
        for away in range(1, KERNEL):
            earlier = functional.pad(value, (0, 0, away, 0))[: len(value)]
            total = total + earlier.masked_fill((positions < away)[:, None], 0) * self.convolution[away]
        return total


class CausalMixer(nn.Module):
    """Blocks one after another over the composed states of packed texts, and an embedding of each token's
    level. It leaves the first token of a text as it is: all that it can see is in its row."""

    rotations: Tensor

    def __init__(
        self, hidden: int, *, blocks: int = 2, width: int = 384, kv_width: int = 192, inner: int = 1152
    ) -> None:
        super().__init__()
        self.levels = nn.Embedding(LEVELS, hidden)
        nn.init.zeros_(self.levels.weight)
        self.blocks = nn.ModuleList(MixerBlock(hidden, width, kv_width, inner) for _ in range(blocks))
        table = Rotary(theta=THETA).table(HEAD_SIZE, POSITIONS)
        self.register_buffer("rotations", table, persistent=False)
        self.kv_shape = kv_width // HEAD_SIZE, HEAD_SIZE
        """Heads of keys and values of a block, and their size."""

    def forward(self, states: Tensor, levels: Tensor, positions: Tensor, attention: Attention) -> Tensor:
        """Mixed states [N, hidden] of composed ones. levels, positions: [N] int64."""
        cosine, sine = self.rotations[:, positions]
        mixed = states + self.levels(levels)
        for at, block in enumerate(self.blocks):
            mixed = block(mixed, positions, (cosine, sine), attention, at)
        return torch.where((positions == 0)[:, None], states, mixed)
