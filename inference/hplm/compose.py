"""From contributions of fragments to token states (paper, equation 2; positions enter after the sum)."""

import torch
from torch import Tensor


def compose(slots: Tensor, lengths: Tensor, position_bias: Tensor) -> Tensor:
    """Token states [B, T, d]: `h_i = V_{i-1}[2] + V_i[1] + V_{i+1}[0] + position_bias[i]`.

    `slots` V [B, T, 3, d] holds one row per token's own fragment; what stands at or past `lengths` [B] is
    ignored and comes out as zeros. `position_bias` is [P, d] for all rows or [B, P, d] for each its own, P
    >= T. The sum is in the wider of both types (float16 rows with a float32 bias: float32).
    """
    tokens = slots.shape[1]
    dtype = torch.promote_types(slots.dtype, position_bias.dtype)
    valid = torch.arange(tokens, device=slots.device) < lengths.to(slots.device)[:, None]
    values = slots.to(dtype).masked_fill(~valid[:, :, None, None], 0)
    states = values[:, :, 1] + position_bias[..., :tokens, :].to(dtype)
    states[:, 1:] += values[:, :-1, 2]
    states[:, :-1] += values[:, 1:, 0]
    return states.masked_fill(~valid[:, :, None], 0)
