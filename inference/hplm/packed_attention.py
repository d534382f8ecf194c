"""Self-attention within each of the packed sequences, by the kernel that the device has for it.

| device | kernel |
|---|---|
| CPU | SDPA, for neighbours of one length together |
| GPU of compute capability 8.0 or more, float16 or bfloat16 | FlashAttention for sequences of any length |
| other GPU (such as a T4), or float32 | SDPA, with sequences padded to a power of two |
"""

from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

from inference.hplm.sequences import PackedSequences
from inference.hplm.upload import Upload

VARLEN_CAPABILITY: Final = (8, 0)
VARLEN_DTYPES: Final = (torch.float16, torch.bfloat16)
VARLEN_HEAD_SIZES: Final = range(8, 257, 8)
"""What FlashAttention computes: from Ampere on, half precision, heads of these sizes."""


def packed_attention(
    query: Tensor, key: Tensor, value: Tensor, sequences: PackedSequences, *, is_causal: bool
) -> Tensor:
    """Mixed values [N, heads, d] of queries [N, heads, d], keys and values [N, kv_heads, d]. A token attends
    to all tokens of its sequence, with `is_causal` to those up to itself."""
    if query.device.type != "cuda":
        return _by_length(query, key, value, sequences, is_causal)
    if torch.is_autocast_enabled("cuda"):  # SDPA casts by itself, FlashAttention's operator does not.
        dtype = torch.get_autocast_dtype("cuda")
        query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
    if has_varlen_kernel(torch.cuda.get_device_capability(query.device), query.dtype, query.shape[-1]):
        return _varlen(query, key, value, sequences, is_causal)
    return padded_attention(query, key, value, sequences, is_causal=is_causal)


def add_layout(sequences: PackedSequences, upload: Upload, dtype: torch.dtype, head_size: int) -> None:
    """Let what `packed_attention` needs to know of the sequences reach a GPU with that upload."""
    if upload.device.type != "cuda":
        return
    if has_varlen_kernel(torch.cuda.get_device_capability(upload.device), dtype, head_size):
        sequences.add_cumulative(upload)
    else:
        sequences.add_padded(upload)


def has_varlen_kernel(capability: tuple[int, int], dtype: torch.dtype, head_size: int) -> bool:
    """Whether FlashAttention for sequences of any length runs on a GPU of this compute capability."""
    return capability >= VARLEN_CAPABILITY and dtype in VARLEN_DTYPES and head_size in VARLEN_HEAD_SIZES


def padded_attention(
    query: Tensor, key: Tensor, value: Tensor, sequences: PackedSequences, *, is_causal: bool
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
        found = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=is_causal)
        mixed.append(found.transpose(1, 2).flatten(0, 1))
    return torch.cat(mixed).index_select(0, layout.places)


def _by_length(
    query: Tensor, key: Tensor, value: Tensor, sequences: PackedSequences, is_causal: bool
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
        # Without a mask the kernel takes a query that is not a number for one that attends to nothing. One of
        # booleans would be converted for each call, which is a tenth of its time for short texts.
        everything = None if is_causal else q.new_zeros(1, 1, 1, length)
        found = functional.scaled_dot_product_attention(
            q, k, v, attn_mask=everything, is_causal=is_causal, enable_gqa=heads != key_heads
        )
        mixed.append(found.transpose(1, 2).flatten(0, 1))
    return mixed[0] if len(mixed) == 1 else torch.cat(mixed)


def _varlen(query: Tensor, key: Tensor, value: Tensor, sequences: PackedSequences, is_causal: bool) -> Tensor:
    from torch.nn.attention.varlen import varlen_attn

    ends, longest = sequences.cumulative(query.device), sequences.longest
    mixed = varlen_attn(
        query,
        key,
        value,
        ends,
        ends,
        longest,
        longest,
        window_size=(-1, 0 if is_causal else -1),
        enable_gqa=True,
        num_splits=1,  # Else the longest neighbour would decide in which order a row is summed up.
    )
    assert isinstance(mixed, Tensor)
    return mixed
