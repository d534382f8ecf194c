"""Causal attention among the packed tokens of whole sequences, without a cache."""

from torch import Tensor

from inference.hplm.packed_attention import packed_attention
from inference.hplm.sequences import PackedSequences


class DenseAttention:
    """Attention of each token to itself and to those before it in its sequence, for training and scoring."""

    def __init__(self, sequences: PackedSequences) -> None:
        self._sequences = sequences

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Mixed values [T, heads, d] of query [T, heads, d], key and value [T, kv_heads, d]."""
        return packed_attention(query, key, value, self._sequences, is_causal=True)
