"""From contributions of fragments to token states (paper, equation 2; positions enter after the sum)."""

import torch
from torch import Tensor

from inference.hplm.fragments import reach


def compose(
    slots: Tensor,
    lengths: Tensor,
    position_bias: Tensor,
    type_bias: Tensor | None = None,
    types: Tensor | None = None,
) -> Tensor:
    """Token states [B, T, d]: `h_i = sum over s of V_{i + n//2 - s}[s]`, plus the bias of its position and of
    its type; for n = 3 `V_{i-1}[2] + V_i[1] + V_{i+1}[0] + position_bias[i]`.

    `slots` V [B, T, n, d] holds one row per token's own fragment; what stands at or past `lengths` [B] is
    ignored and comes out as zeros. `position_bias` is [P, d] for all rows or [B, P, d] for each its own, P
    >= T; `type_bias` [types, d] or [B, types, d] with `types` [B, T] int64. The sum is in the wider of both
    types (float16 rows with a float32 bias: float32).
    """
    tokens, n = slots.shape[1:3]
    left, right = reach(n)
    dtype = torch.promote_types(slots.dtype, position_bias.dtype)
    valid = torch.arange(tokens, device=slots.device) < lengths.to(slots.device)[:, None]
    values = slots.to(dtype).masked_fill(~valid[:, :, None, None], 0)
    states = values[:, :, left] + position_bias[..., :tokens, :].to(dtype)
    for away in range(1, left + 1):  # the fragment `away` tokens later speaks of this one in an earlier slot
        states[:, :-away] += values[:, away:, left - away]
    for away in range(1, right + 1):
        states[:, away:] += values[:, :-away, left + away]
    if type_bias is not None and types is not None:
        states = states + _of_types(type_bias.to(dtype), types)
    return states.masked_fill(~valid[:, :, None], 0)


def _of_types(bias: Tensor, types: Tensor) -> Tensor:
    if bias.dim() == 2:
        return bias[types]
    return bias.gather(1, types[:, :, None].expand(-1, -1, bias.shape[2]))
