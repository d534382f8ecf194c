"""The context mixer: a small block that gives composed states context from outside their fragments."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from inference.errors import HplmError
from inference.hplm.artifact_files import build_from, freeze
from inference.hplm.bucketed_linear import linear
from inference.hplm.sequences import GAP, PackedSequences
from inference.hplm.upload import Upload

KERNEL = 2 * GAP + 1
"""Tokens that the depthwise convolution reads: this one and GAP on each side."""
LEVELS = 3
"""Levels of a token: its fragment was found whole, in part, or by its uni-gram alone (plot's HIT_*)."""
EPS = 1e-6


class ContextMixer(nn.Module):
    """A residual block over the composed states of each text: a gated depthwise convolution with the mean of
    the text, then a feed-forward block, each behind a norm. The last norm gives states the size that the
    layers above expect: sums are too small where they know little. New, the mixer only normalises."""

    def __init__(self, hidden: int, *, width: int | None = None, inner: int | None = None) -> None:
        """width: of the convolution, by default a third of the hidden size in steps of 32. inner: of the
        feed-forward block, by default so much that a mixer takes 0.28 of a BERT layer's multiplications."""
        super().__init__()
        width = -(-hidden // 96) * 32 if width is None else width
        inner = hidden + width // 2 if inner is None else inner
        self.levels = nn.Embedding(LEVELS, hidden)
        self.mix_norm = nn.LayerNorm(hidden, eps=EPS)
        self.value = nn.Linear(hidden, width)
        self.gate = nn.Linear(hidden, width)
        self.convolution = nn.Parameter(0.3 * torch.randn(KERNEL, width))
        self.mean = nn.Linear(width, width, bias=False)
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
        return self.value.in_features

    @property
    def dtype(self) -> torch.dtype:
        return self.value.weight.dtype

    @property
    def device(self) -> torch.device:
        return self.value.weight.device

    def forward(self, states: Tensor, layout: Tensor | PackedSequences, levels: Tensor) -> Tensor:
        """Mixed states of the shape and dtype of `states`: [N, d] of packed sequences, or [B, T, d] with a
        mask [B, T] bool (true: a token). levels [N] or [B, T] int64: below LEVELS."""
        hidden: Tensor = self.levels(levels).add_(states)
        normed = self.mix_norm(hidden)
        value = _apply(self.value, normed)
        mixed = self._convolved(value, layout) + self._of_text(value, layout)
        hidden = hidden + _apply(self.output, mixed * torch.sigmoid(_apply(self.gate, normed)))
        inner = functional.gelu(_apply(self.expand, self.feed_norm(hidden)))
        normal: Tensor = self.output_norm(hidden + _apply(self.contract, inner))
        return normal.to(states.dtype)

    def add_layout(self, sequences: PackedSequences, upload: Upload) -> None:
        """Let what `forward` needs to know of packed sequences reach the device with that upload."""
        sequences.add_spaced(upload)
        sequences.add_cumulative(upload)

    def _of_text(self, value: Tensor, layout: Tensor | PackedSequences) -> Tensor:
        """What the mean of its text tells each token, broadcast to the shape of `value`."""
        if not isinstance(layout, PackedSequences):
            total = value.masked_fill(~layout[..., None], 0).sum(1, keepdim=True)
            return _apply(self.mean, total / layout.sum(1)[:, None, None])
        order = torch.arange(layout.tokens, device=value.device)
        begins = layout.cumulative(value.device)[:-1].long()
        mean = functional.embedding_bag(order, value.float(), begins, mode="mean")
        number = (layout.spaced(value.device) - order) // GAP
        return _apply(self.mean, mean.to(value.dtype)).index_select(0, number)

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
        mixer = build_from(lambda: cls.sized_as(tensors), tensors, "context mixer")
        freeze(mixer)
        return mixer

    @classmethod
    def sized_as(cls, tensors: Mapping[str, Tensor]) -> "ContextMixer":
        """A new mixer of the sizes of these weights, which are those of `state_dict`.

        Raises HplmError(corrupt_artifact) where they contradict each other, before anything is allocated.
        """
        value, expand = (tensors.get(name) for name in ("value.weight", "expand.weight"))
        if value is None or expand is None or value.dim() != 2 or expand.dim() != 2:
            raise HplmError(
                "corrupt_artifact", "context mixer: value.weight or expand.weight is missing or no matrix"
            )
        if value.shape[1] != expand.shape[1] or not len(value):
            shapes = f"value.weight has the shape {tuple(value.shape)}, expand.weight {tuple(expand.shape)}"
            raise HplmError("corrupt_artifact", f"context mixer: {shapes}; they must be as wide")
        return cls(value.shape[1], width=len(value), inner=len(expand))


def _apply(module: nn.Linear, states: Tensor) -> Tensor:
    return linear(states, module.weight, module.bias)
