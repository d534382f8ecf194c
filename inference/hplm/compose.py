"""From contributions of fragments to token states (paper, equation 2), and what a sum alone cannot say."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

from inference.hplm.errors import HplmError
from inference.hplm.fragments import reach

NAMES: Final = ("position_bias", "type_bias", "context_down", "context_up")
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
        return {name: getattr(self, name) for name in NAMES}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> "Composition":
        """The inverse of `tensors`; HplmError(corrupt_artifact) when one is absent or misshapen."""
        absent = [name for name in NAMES if name not in tensors or tensors[name].dim() < 2]
        if absent:
            raise HplmError("corrupt_artifact", f"composition: {absent[0]} is missing or has no width")
        return cls(**{name: tensors[name] for name in NAMES})

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
    left, right = reach(n)
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
    corrected = states + _context(states, lengths, parts)
    return corrected.masked_fill(~valid[:, :, None], 0)


def _context(states: Tensor, lengths: Tensor, parts: Composition) -> Tensor:
    """The correction [B, T, d] of sums [B, T, d] that are zero past the end of each text."""
    down, up = parts.context_down.to(states.dtype), parts.context_up.to(states.dtype)
    mean = states.sum(1, keepdim=True) / lengths.to(states.dtype)[:, None, None]
    own, before, after = (states @ down[part] for part in range(3))
    before = functional.pad(before, (0, 0, 1, -1))
    after = functional.pad(after, (0, 0, -1, 1))
    return (own + before + after + mean @ down[3]) @ up
