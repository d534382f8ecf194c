"""Causal attention among the packed tokens of whole sequences, without a cache."""

import torch
from torch import Tensor
from torch.nn import functional

from inference.hplm.packed_attention import packed_attention
from inference.hplm.sequences import PackedSequences


class DenseAttention:
    """Attention of each token to itself and to those before it in its sequence, for training and scoring."""

    def __init__(self, sequences: PackedSequences) -> None:
        self._sequences = sequences

    def __call__(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, window: int | None = None
    ) -> Tensor:
        """Mixed values [T, heads, d] of query [T, heads, d], key and value [T, kv_heads, d]."""
        if window is None or self._sequences.longest <= window:
            return packed_attention(query, key, value, self._sequences, is_causal=True)
        return self._windowed(query, key, value, window)

    def _windowed(self, query: Tensor, key: Tensor, value: Tensor, window: int) -> Tensor:
        """Attention of neighbours of one length together, with a mask."""
        shared = query.shape[1] // key.shape[1]
        key, value = (states.repeat_interleave(shared, 1) for states in (key, value))
        mixed = []
        for begin, count, length in self._sequences.runs():
            q, k, v = (
                states[begin : begin + count * length].view(count, length, *query.shape[1:]).transpose(1, 2)
                for states in (query, key, value)
            )
            mask = _window_mask(length, window, query.dtype, query.device)
            found = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            mixed.append(found.transpose(1, 2).flatten(0, 1))
        return torch.cat(mixed)


def _window_mask(length: int, window: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """What is added to the scores [length, length]: minus infinity outside the window."""
    positions = torch.arange(length, device=device)
    distances = positions[:, None] - positions
    mask = torch.zeros(length, length, dtype=dtype, device=device)
    return mask.masked_fill_((distances < 0) | (distances >= window), -torch.inf)
