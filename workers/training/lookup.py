"""Labelled texts as the upper layers will see them: their lower half looked up once and kept."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from inference.hplm import fragments
from inference.hplm.compose import compose
from inference.hplm.plot import PlotChain
from workers.training.corpus import Ids
from workers.training.progress import Reporter

TEXTS_AT_ONCE = 64
HIT_NAMES = ("trigram", "bigram", "unigram")


@dataclass(frozen=True)
class LookedUp:
    """States at the cut of many texts, in one nameless file of float16 mapped into memory.

    flat: [total tokens, d]; starts: [texts + 1]; hits: share of the fragments that each level answered.
    """

    flat: npt.NDArray[np.float16]
    starts: npt.NDArray[np.int64]
    hits: dict[str, float]

    def batch(self, numbers: Sequence[int]) -> tuple[Tensor, Tensor]:
        """States [B, T, d] float32, zero at padding, and mask [B, T] bool."""
        lengths = np.asarray([self.starts[n + 1] - self.starts[n] for n in numbers])
        states = torch.zeros(len(numbers), int(lengths.max()), self.flat.shape[1])
        for row, number in enumerate(numbers):
            piece = self.flat[self.starts[number] : self.starts[number + 1]]
            states[row, : len(piece)] = torch.from_numpy(np.array(piece)).float()
        mask = torch.arange(states.shape[1])[None, :] < torch.from_numpy(lengths)[:, None]
        return states, mask


def look_up(texts: Sequence[Ids], chain: PlotChain, reporter: Reporter) -> LookedUp:
    """Look up all fragments of the texts and keep the composed states."""
    starts = np.concatenate(([0], np.cumsum([len(ids) for ids in texts]))).astype(np.int64)
    hidden = chain.tables[0].hidden
    # A file without a name is gone with its last user, killed or not.
    with tempfile.TemporaryFile() as file:
        flat = np.memmap(file, dtype=np.float16, mode="w+", shape=(int(starts[-1]), hidden))
    hits = np.zeros(len(HIT_NAMES), dtype=np.int64)
    reporter.stage("look up", len(texts))
    for first in range(0, len(texts), TEXTS_AT_ONCE):
        reporter.check()
        some = texts[first : first + TEXTS_AT_ONCE]
        found = chain.lookup(np.concatenate([fragments.of_sequence(ids, chain.missing_id) for ids in some]))
        hits += found.counts()
        vectors = torch.tensor_split(
            torch.from_numpy(found.vectors), np.cumsum([len(i) for i in some])[:-1].tolist()
        )
        for number, slots in enumerate(vectors, start=first):
            states = compose(slots[None], torch.tensor([len(slots)]), chain.position_bias)[0]
            flat[starts[number] : starts[number + 1]] = states.numpy().astype(np.float16)
        reporter.advance(first + len(some))
    shares = (hits / hits.sum()).round(4).tolist()
    return LookedUp(flat, starts, dict(zip(HIT_NAMES, shares, strict=True)))
