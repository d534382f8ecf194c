"""Packs training sequences one after another into batches under a token budget, without padding."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from inference.hplm.sequences import PackedSequences

Ids = npt.NDArray[np.int64]


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
    the model learns to write, and targets: [R] int64, what it learns to write there.
    """

    layout: PackedSequences
    token_ids: Tensor
    positions: Tensor
    rows: Tensor
    targets: Tensor


def pack(sequences: Sequence[TrainingSequence], device: torch.device | str = "cpu") -> PackedBatch:
    """The sequences as one batch on a device."""
    layout = PackedSequences(tuple(map(len, sequences)))
    learned = np.concatenate([one.learned for one in sequences])
    targets = np.concatenate([one.ids[1:] for one in sequences])
    return PackedBatch(
        layout,
        token_ids=torch.from_numpy(np.concatenate([one.ids[:-1] for one in sequences])).to(device),
        positions=torch.from_numpy(layout.positions).to(device),
        rows=torch.from_numpy(np.flatnonzero(learned)).to(device),
        targets=torch.from_numpy(targets[learned]).to(device),
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
