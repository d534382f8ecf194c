"""Self-attention within each of the packed sequences, by the kernel that the device has for it.

| device | kernel |
|---|---|
| CPU | SDPA, for neighbours of one length together |
| GPU of compute capability 8.0 or more, float16 or bfloat16 | FlashAttention for sequences of any length |
| other GPU (such as a T4), float32, scores with a bias | SDPA, with sequences padded to a power of two |
"""

from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

from inference.hplm.position_scheme import PositionScheme
from inference.hplm.sequences import PackedSequences
from inference.hplm.upload import Upload

VARLEN_CAPABILITY: Final = (8, 0)
VARLEN_DTYPES: Final = (torch.float16, torch.bfloat16)
VARLEN_HEAD_SIZES: Final = range(8, 257, 8)
"""What FlashAttention computes: from Ampere on, half precision, heads of these sizes."""


def packed_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    sequences: PackedSequences,
    *,
    is_causal: bool,
    scheme: PositionScheme | None = None,
) -> Tensor:
    """Mixed values [N, heads, d] of queries [N, heads, d], keys and values [N, kv_heads, d]. A token attends
    to all tokens of its sequence, with `is_causal` to those up to itself. scheme: of positions that change
    scores; not with `is_causal`, and with as many keys as heads."""
    if query.device.type != "cuda":
        return _by_length(query, key, value, sequences, is_causal, scheme)
    if torch.is_autocast_enabled("cuda"):  # SDPA casts by itself, FlashAttention's operator does not.
        dtype = torch.get_autocast_dtype("cuda")
        query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
    capability, has_bias = torch.cuda.get_device_capability(query.device), scheme and scheme.has_bias
    if has_varlen_kernel(capability, query.dtype, query.shape[-1]) and not has_bias:
        return _varlen(query, key, value, sequences, is_causal, scheme.window if scheme else 0)
    return padded_attention(query, key, value, sequences, is_causal=is_causal, scheme=scheme)


def add_layout(
    sequences: PackedSequences, upload: Upload, dtype: torch.dtype, head_size: int, *, has_bias: bool = False
) -> None:
    """Let what `packed_attention` needs to know of the sequences reach a GPU with that upload. has_bias: of
    the scores."""
    if upload.device.type != "cuda":
        return
    capability = torch.cuda.get_device_capability(upload.device)
    if has_varlen_kernel(capability, dtype, head_size) and not has_bias:
        sequences.add_cumulative(upload)
    else:
        sequences.add_padded(upload)


def has_varlen_kernel(capability: tuple[int, int], dtype: torch.dtype, head_size: int) -> bool:
    """Whether FlashAttention for sequences of any length runs on a GPU of this compute capability."""
    return capability >= VARLEN_CAPABILITY and dtype in VARLEN_DTYPES and head_size in VARLEN_HEAD_SIZES


def padded_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    sequences: PackedSequences,
    *,
    is_causal: bool,
    scheme: PositionScheme | None = None,
) -> Tensor:
    """As `packed_attention`, by SDPA over padded sequences, on any device.

    How far a sequence is padded depends on its own length alone, so that its numbers do not depend on longer
    neighbours, and kernels see few shapes.
    """
    layout = sequences.padded(query.device)
    # SDPA's memory-efficient kernel takes one key-value head for each head. Without it scores need T² memory.
    shared = query.shape[1] // key.shape[1]
    if shared > 1:
        key, value = key.repeat_interleave(shared, 1), value.repeat_interleave(shared, 1)
    padded = [states.index_select(0, layout.tokens) for states in (query, key, value)]
    mixed = []
    for part, count in layout.groups:
        q, k, v = (states[part].view(count, -1, *states.shape[1:]).transpose(1, 2) for states in padded)
        # The padding follows the tokens, so causal attention does not reach it.
        mask = None if is_causal else layout.is_token[part].view(count, 1, 1, -1)
        if scheme is not None:
            found = scheme.attend(q, k, v, mask)
        else:
            found = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=is_causal)
        mixed.append(found.transpose(1, 2).flatten(0, 1))
    return torch.cat(mixed).index_select(0, layout.places)


def _by_length(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    sequences: PackedSequences,
    is_causal: bool,
    scheme: PositionScheme | None,
) -> Tensor:
    """Attention of neighbours of one length together. A CPU has no kernel for sequences of different lengths;
    with a mask over padding it takes two to four times as long."""
    (_, heads, size), key_heads = query.shape, key.shape[1]
    mixed = []
    for begin, count, length in sequences.runs():
        part = slice(begin, begin + count * length)
        q = query[part].view(count, length, heads, size).transpose(1, 2)
        k = key[part].view(count, length, key_heads, size).transpose(1, 2)
        v = value[part].view(count, length, key_heads, size).transpose(1, 2)
        if scheme is not None:
            found = scheme.attend(q, k, v, None)
        else:
            # Without a mask the kernel takes a query that is not a number for one that attends to nothing.
            # One of booleans would be converted for each call, a tenth of its time for short texts.
            everything = None if is_causal else q.new_zeros(1, 1, 1, length)
            found = functional.scaled_dot_product_attention(
                q, k, v, attn_mask=everything, is_causal=is_causal, enable_gqa=heads != key_heads
            )
        mixed.append(found.transpose(1, 2).flatten(0, 1))
    return mixed[0] if len(mixed) == 1 else torch.cat(mixed)


def _varlen(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    sequences: PackedSequences,
    is_causal: bool,
    window: int,
) -> Tensor:
    """window: tokens on each side that a token attends to, 0: all."""
    from torch.nn.attention.varlen import varlen_attn

    ends, longest = sequences.cumulative(query.device), sequences.longest
    side = window or -1
    mixed = varlen_attn(
        query,
        key,
        value,
        ends,
        ends,
        longest,
        longest,
        window_size=(side, 0 if is_causal else side),
        enable_gqa=True,
        num_splits=1,  # Else the longest neighbour would decide in which order a row is summed up.
    )
    assert isinstance(mixed, Tensor)
    return mixed
