"""Token ids of several texts, packed one after another."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import torch
from torch import Tensor

from benchmarks.accuracy.hgpt.fragments import Ids, fragments_of
from inference.hplm.sequences import PackedSequences

TOKENS_PER_BATCH: Final = 1024


@dataclass(frozen=True, eq=False)
class Texts:
    """Texts one after another, T tokens in all. ids: of each text, at least one."""

    ids: tuple[Ids, ...]

    @cached_property
    def layout(self) -> PackedSequences:
        """Where each text lies."""
        return PackedSequences.of(self.ids)

    @cached_property
    def token_ids(self) -> Tensor:
        """All tokens [T]."""
        return torch.from_numpy(np.concatenate(self.ids))

    @cached_property
    def positions(self) -> Tensor:
        """The position of each token in its text [T]."""
        return torch.from_numpy(self.layout.positions)

    def fragments(self, n: int) -> Ids:
        """The fragment [T, n] of each token."""
        return np.concatenate([fragments_of(ids, n) for ids in self.ids])

    def batches(self) -> Iterator["Texts"]:
        """The texts in their order, about a thousand tokens at a time."""
        batch, total = list[Ids](), 0
        for ids in self.ids:
            if batch and total + len(ids) > TOKENS_PER_BATCH:
                yield Texts(tuple(batch))
                batch, total = [], 0
            batch.append(ids)
            total += len(ids)
        yield Texts(tuple(batch))
