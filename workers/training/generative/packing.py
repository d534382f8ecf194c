"""Packs training sequences one after another into batches under a token budget, without padding."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from inference.hplm.sequences import PackedSequences
from inference.hplm.upload import Upload
from workers.training.precision import CPU, bucket_length
from workers.training.tasks.base import IGNORE_INDEX

Ids = npt.NDArray[np.int64]
PADDING: Final = 64
"""Tokens: on a GPU batches are padded to a multiple."""


@dataclass(frozen=True, eq=False)
class TrainingSequence:
    """The tokens of one row.

    ids: [T + 1]: the last one is only a target. learned: [T] bool: whether the model learns to write token
    t + 1 after token t. truncated: the row had more tokens.
    """

    ids: Ids
    learned: npt.NDArray[np.bool_]
    truncated: bool = False

    def __len__(self) -> int:
        """The number of tokens that the model reads."""
        return len(self.learned)

    @property
    def targets(self) -> int:
        """The number of tokens that the model learns to write."""
        return int(self.learned.sum())


@dataclass(frozen=True, eq=False)
class PackedBatch:
    """Sequences one after another, T tokens in all.

    layout: where each sequence lies. token_ids, positions: [T] int64. rows: [R] int64, the tokens after which
    the model learns to write, and targets: [R] int64, what it learns to write there. On a GPU T and R are
    multiples of PADDING: a last sequence, and targets IGNORE_INDEX, mean nothing. tokens: those before it.
    """

    layout: PackedSequences
    tokens: int
    token_ids: Tensor
    positions: Tensor
    rows: Tensor
    targets: Tensor


def pack(sequences: Sequence[TrainingSequence], device: torch.device = CPU) -> PackedBatch:
    """The sequences as one batch on a device."""
    layout = PackedSequences(tuple(map(len, sequences)))
    learned = np.concatenate([one.learned for one in sequences])
    rows = np.flatnonzero(learned)
    targets = np.concatenate([one.ids[1:] for one in sequences])[learned]
    size, learned_size = (bucket_length(count, device, PADDING) for count in (layout.tokens, len(rows)))
    upload = Upload(device)
    token_ids, positions, rows_there, targets_there = (
        upload.add(np.pad(values, (0, length - len(values)), constant_values=padding))
        for values, length, padding in (
            (np.concatenate([one.ids[:-1] for one in sequences]), size, 0),
            (layout.positions, size, 0),
            (rows, learned_size, 0),
            (targets, learned_size, IGNORE_INDEX),
        )
    )
    padded = [size - layout.tokens] if size > layout.tokens else []
    return PackedBatch(
        PackedSequences((*layout.lengths, *padded)),
        layout.tokens,
        token_ids.tensor,
        positions.tensor,
        rows_there.tensor,
        targets_there.tensor,
    )


def token_batches(
    lengths: Sequence[int],
    budget: int,
    rng: np.random.Generator | None = None,
    *,
    rows: int | None = None,
) -> Iterator[list[int]]:
    """Batches of indices, each of at most `budget` tokens, or of one longer sequence.

    rows: most sequences of a batch; None: no limit.

    Sequences are in the order of their indices, or shuffled by `rng`. A batch ends where the next sequence
    does not fit: nothing is padded, so a batch that is not full costs no more than its tokens.
    """
    order = np.arange(len(lengths)) if rng is None else rng.permutation(len(lengths))
    total, ends = 0, [0]
    for at, index in enumerate(order):
        if total and (total + lengths[index] > budget or at - ends[-1] == rows):
            ends.append(at)
            total = 0
        total += lengths[index]
    for start, end in pairwise([*ends, len(order)]):
        yield order[start:end].tolist()
