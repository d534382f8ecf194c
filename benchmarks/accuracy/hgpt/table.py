"""Tables of a corpus' most frequent fragments, with shorter fragments to fall back on."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.accuracy.hgpt.fragments import Ids
from benchmarks.accuracy.hgpt.texts import Texts


@dataclass(frozen=True, eq=False)
class FragmentTable:
    """Which fragments a table holds. A fragment has one vector: the state of its last token.

    keys: by length from 2 to n, the sorted keys of the fragments that are kept. All single tokens are kept.
    vocab: the number of tokens.
    """

    keys: tuple[Ids, ...]
    vocab: int

    @classmethod
    def of(cls, corpus: Sequence[Ids], n: int, vocab: int, coverage: float) -> "FragmentTable":
        """The most frequent fragments of each length that make up the share `coverage` of its occurrences.

        corpus: stretches of running text.
        """
        kept = []
        for length in range(2, n + 1):
            long = [_keys(ids, length, vocab) for ids in corpus if len(ids) >= length]
            found, counts = np.unique(np.concatenate(long), return_counts=True)
            order = np.argsort(-counts, kind="stable")
            reached = np.cumsum(counts[order])
            enough = int(np.searchsorted(reached, coverage * reached[-1])) + 1
            kept.append(np.sort(found[order[:enough]]))
        return cls(tuple(kept), vocab)

    def __len__(self) -> int:
        """The number of vectors."""
        return self.vocab + sum(map(len, self.keys))

    def lengths(self, texts: Texts) -> Ids:
        """For each token [T] how many tokens its longest kept fragment has."""
        return np.concatenate([self._lengths(ids) for ids in texts.ids])

    def _lengths(self, ids: Ids) -> Ids:
        lengths = np.ones(len(ids), dtype=np.int64)
        for length, kept in enumerate(self.keys, start=2):
            if len(ids) >= length:
                hit = np.isin(_keys(ids, length, self.vocab), kept)
                lengths[length - 1 :][hit] = length
        return lengths


def _keys(ids: Ids, length: int, vocab: int) -> Ids:
    """One number for each fragment of `length` tokens of a text.

    They are exact while vocab ** length is below 2 ** 63, and hashes beyond that.
    """
    count = len(ids) - length + 1
    keys = np.zeros(count, dtype=np.int64)
    with np.errstate(over="ignore"):
        for place in range(length):
            keys = keys * vocab + ids[place : place + count]
    return keys


def shares(table: FragmentTable, texts: Texts) -> dict[int, float]:
    """The share of the tokens that are looked up with each length of fragment, of those with n - 1 tokens
    before them."""
    n = len(table.keys) + 1
    lengths = table.lengths(texts)[texts.layout.positions >= n - 1]
    return {length: float((lengths == length).mean()) for length in range(1, n + 1)}
