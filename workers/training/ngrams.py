"""Which fragments of a corpus a PLOT keeps (paper sections 5.1 and 7.7)."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from inference.hplm import fragments

Keys = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int64]

# Keys gathered before they are made unique: 32 MiB of them.
CHUNK = 4_000_000


@dataclass
class KeyCounter:
    """Counts int64 keys in bounded memory beside the unique keys themselves."""

    chunk: int = CHUNK
    _pending: list[Keys] = field(default_factory=list)
    _pending_size: int = 0
    # Runs of (keys, counts), each at least twice as long as the next, so that merging stays n log n.
    _runs: list[tuple[Keys, Counts]] = field(default_factory=list)

    def add(self, keys: Keys) -> None:
        self._pending.append(keys)
        self._pending_size += len(keys)
        if self._pending_size >= self.chunk:
            self._fold()

    def result(self) -> tuple[Keys, Counts]:
        """Unique keys, ascending, and how often each was added."""
        self._fold()
        while len(self._runs) > 1:
            self._merge_last()
        if not self._runs:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        return self._runs[0]

    def _fold(self) -> None:
        if not self._pending:
            return
        keys, counts = np.unique(np.concatenate(self._pending), return_counts=True)
        self._pending, self._pending_size = [], 0
        self._runs.append((keys, counts.astype(np.int64)))
        while len(self._runs) > 1 and len(self._runs[-2][0]) < 2 * len(self._runs[-1][0]):
            self._merge_last()

    def _merge_last(self) -> None:
        second, first = self._runs.pop(), self._runs.pop()
        keys = np.concatenate((first[0], second[0]))
        counts = np.concatenate((first[1], second[1]))
        order = np.argsort(keys, kind="stable")
        keys, counts = keys[order], counts[order]
        starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
        self._runs.append((keys[starts], np.add.reduceat(counts, starts)))


def covering(keys: Keys, counts: Counts, alpha: float) -> Keys:
    """The fewest most frequent keys whose occurrences reach `alpha` % of all; ascending.

    Equal counts are taken in ascending order of key, so the choice is the same on every machine.
    """
    if alpha <= 0 or not len(keys):
        return np.empty(0, np.int64)
    order = np.lexsort((keys, -counts))
    covered = np.cumsum(counts[order])
    # Compared as alpha * total <= 100 * covered: exact for whole alphas, where a quotient would round.
    needed = int(np.searchsorted(covered * 100.0, alpha * float(covered[-1]), side="left")) + 1
    return np.sort(keys[order[:needed]])


@dataclass(frozen=True)
class FragmentCounts:
    """Occurrences in a corpus: interior tri-grams, adjacent pairs, tokens, and the fragments at the ends."""

    trigrams: tuple[Keys, Counts]
    pairs: tuple[Keys, Counts]
    tokens: Keys
    boundary: Keys


def count_fragments(sequences: Iterable[npt.NDArray[np.int64]], missing_id: int) -> FragmentCounts:
    """Count the fragments of sequences `[CLS] … [SEP]`.

    A pair (a, b) is keyed as the fragment (a, b, MISSING); it stands for both bi-grams it can give.
    """
    trigrams, pairs, tokens, boundary = KeyCounter(), KeyCounter(), KeyCounter(), KeyCounter()
    for ids in sequences:
        all_fragments = fragments.of_sequence(ids, missing_id)
        keys = fragments.pack(all_fragments)
        trigrams.add(keys[1:-1])
        boundary.add(keys[[0, -1]])
        tokens.add(ids)
        left = np.stack((ids[:-1], ids[1:], np.full(len(ids) - 1, missing_id)), axis=1)
        pairs.add(fragments.pack(left))
    return FragmentCounts(trigrams.result(), pairs.result(), tokens.result()[0], boundary.result()[0])
