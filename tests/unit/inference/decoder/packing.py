"""Packed token ids, and what a decoder says of them."""

from collections.abc import Sequence

import torch
from torch import Tensor

from inference.decoder.decoder import Decoder, ProjectionDeltas
from inference.decoder.dense_attention import DenseAttention
from inference.hplm.sequences import PackedSequences
from tests.unit.tiny_decoder import BOS


def random_sequences(lengths: Sequence[int], *, seed: int = 0) -> list[Tensor]:
    """Token ids [T] int64 of each length."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(0, BOS, (length,), generator=generator) for length in lengths]


def logits_of(
    decoder: Decoder, sequences: Sequence[Tensor], deltas: ProjectionDeltas | None = None
) -> list[Tensor]:
    """Logits [T, vocab] of each sequence, computed together."""
    packed = PackedSequences(tuple(map(len, sequences)))
    positions = torch.from_numpy(packed.positions)
    attention = DenseAttention(packed)
    return list(packed.split(decoder.forward(torch.cat(list(sequences)), positions, attention, deltas)))
