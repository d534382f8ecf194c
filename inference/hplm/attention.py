"""Self-attention among the tokens of each sequence, packed or padded."""

import torch
from torch import Tensor
from torch.nn import functional

from inference.hplm.architecture import Architecture
from inference.hplm.packed_attention import add_layout, packed_attention
from inference.hplm.position_scheme import MASKED_SCORE, PositionScheme
from inference.hplm.sequences import PackedSequences
from inference.hplm.upload import Upload

MAX_UNFUSED_TOKENS = 256
"""Longest text for which training on a CPU uses unfused attention."""


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    layout: Tensor | PackedSequences | None,
    heads: int,
    scheme: PositionScheme | None = None,
) -> Tensor:
    """Mixed values, of the shape of query, key and value: [N, d] of packed sequences, else [B, T, d].

    layout: how packed sequences lie; or a mask [B, T] bool (true: a token); or None where every place holds a
    token and there are few of them. scheme: of the layer's positions, None if the embeddings alone have them.
    """
    query, key, value = (states.view(*states.shape[:-1], heads, -1) for states in (query, key, value))
    if scheme is not None and scheme.theta:
        positions = layout.positions_on(query.device) if isinstance(layout, PackedSequences) else None
        query, key = scheme.rotated(query, positions), scheme.rotated(key, positions)
    if isinstance(layout, PackedSequences):
        return packed_attention(query, key, value, layout, is_causal=False, scheme=scheme).flatten(1)
    query, key, value = (states.transpose(1, 2) for states in (query, key, value))
    if layout is None or _trains_on_cpu(query):
        mixed = _unfused(query, key, value, layout, scheme)
    elif scheme is not None:
        mixed = scheme.attend(query, key, value, layout[:, None, None, :])
    else:
        mask = layout[:, None, None, :]
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    return mixed.transpose(1, 2).flatten(2)


def add_encoder_layout(
    sequences: PackedSequences, upload: Upload, dtype: torch.dtype, architecture: Architecture
) -> None:
    """Let what `attention` needs to know of the sequences, in layers of this kind, reach a GPU with that
    upload."""
    has_bias = architecture.relative is not None
    add_layout(sequences, upload, dtype, architecture.head_size, has_bias=has_bias)
    if architecture.rotary:
        sequences.add_positions(upload)


def _trains_on_cpu(query: Tensor) -> bool:
    """Whether gradients of short texts [B, heads, T, d_head] are needed on a CPU, where the fused kernel's
    backward is slow."""
    return torch.is_grad_enabled() and query.device.type == "cpu" and query.shape[2] <= MAX_UNFUSED_TOKENS


def _unfused(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scheme: PositionScheme | None
) -> Tensor:
    """Attention [B, heads, T, d_head] of short sequences, without the fused kernel, which is for long ones.

    On a CPU this takes 40% of the fused kernel's time for a few tokens, and 75% in training on sentences.
    """
    scale = query.shape[-1] ** -0.5 if scheme is None else scheme.scale
    scores = torch.matmul(query * scale, key.transpose(-1, -2)).float()
    if scheme is not None and (bias := scheme.bias(query, key)) is not None:
        scores = scores + bias
    if mask is not None:
        scores = scores.masked_fill(~mask[:, None, None, :], MASKED_SCORE)
    return torch.matmul(scores.softmax(-1).to(value.dtype), value)
