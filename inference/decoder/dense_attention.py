"""Causal attention among the packed tokens of whole sequences, without a cache."""

import torch
from torch import Tensor
from torch.nn import functional

from inference.hplm.sequences import PackedSequences


class DenseAttention:
    """Attention of each token to itself and to those before it in its sequence, for training and scoring."""

    def __init__(self, sequences: PackedSequences) -> None:
        self._sequences = sequences

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Mixed values [T, heads, d] of query [T, heads, d], key and value [T, kv_heads, d]."""
        if query.device.type == "cuda" and query.dtype in (torch.float16, torch.bfloat16):
            return self._varlen(query, key, value)
        mixed = [self._run(query[part], key[part], value[part], count) for part, count in self._runs()]
        return torch.cat(mixed)

    def _runs(self) -> list[tuple[slice, int]]:
        return [
            (slice(begin, begin + count * length), count) for begin, count, length in self._sequences.runs()
        ]

    def _run(self, query: Tensor, key: Tensor, value: Tensor, count: int) -> Tensor:
        """Neighbouring sequences of one length together."""
        q, k, v = (
            states.view(count, -1, *states.shape[1:]).transpose(1, 2) for states in (query, key, value)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return mixed.transpose(1, 2).flatten(0, 1)

    def _varlen(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        from torch.nn.attention.varlen import varlen_attn

        ends, longest = self._sequences.cumulative(query.device), self._sequences.longest
        mixed = varlen_attn(
            query,
            key,
            value,
            ends,
            ends,
            longest,
            longest,
            window_size=(-1, 0),
            enable_gqa=True,
            num_splits=1,
        )
        assert isinstance(mixed, Tensor)
        return mixed
