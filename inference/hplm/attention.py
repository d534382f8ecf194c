"""Self-attention among the tokens of each sequence, packed or padded."""

import torch
from torch import Tensor
from torch.nn import functional

from inference.hplm.packed_attention import packed_attention
from inference.hplm.sequences import PackedSequences

MAX_UNFUSED_TOKENS = 256
"""Longest text for which training on a CPU uses unfused attention."""
MASKED_SCORE = -1e4


def attention(
    query: Tensor, key: Tensor, value: Tensor, layout: Tensor | PackedSequences | None, heads: int
) -> Tensor:
    """Mixed values, of the shape of query, key and value: [N, d] of packed sequences, else [B, T, d].

    layout: how packed sequences lie; or a mask [B, T] bool (true: a token); or None where every place holds a
    token and there are few of them.
    """
    if isinstance(layout, PackedSequences):
        query, key, value = (states.view(len(states), heads, -1) for states in (query, key, value))
        return packed_attention(query, key, value, layout, is_causal=False).flatten(1)
    batch, tokens = query.shape[:2]
    query, key, value = (
        states.view(batch, tokens, heads, -1).transpose(1, 2) for states in (query, key, value)
    )
    if layout is None or _trains_on_cpu(query):
        mixed = _unfused(query, key, value, layout)
    else:
        mask = layout[:, None, None, :]
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    return mixed.transpose(1, 2).flatten(2)


def _trains_on_cpu(query: Tensor) -> bool:
    """Whether gradients of short texts [B, heads, T, d_head] are needed on a CPU, where the fused kernel's
    backward is slow."""
    return torch.is_grad_enabled() and query.device.type == "cpu" and query.shape[2] <= MAX_UNFUSED_TOKENS


def _unfused(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """Attention [B, heads, T, d_head] of short sequences, without the fused kernel, which is for long ones.

    On a CPU this takes 40% of the fused kernel's time for a few tokens, and 75% in training on sentences.
    """
    scores = torch.matmul(query * query.shape[-1] ** -0.5, key.transpose(-1, -2)).float()
    if mask is not None:
        scores = scores.masked_fill(~mask[:, None, None, :], MASKED_SCORE)
    return torch.matmul(scores.softmax(-1).to(value.dtype), value)
