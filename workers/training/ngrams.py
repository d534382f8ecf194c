"""The fragments of running text, for windows of any length (paper sections 3.2.1 and 7.10)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

Ids = npt.NDArray[np.int64]

FULL: Final = "full"
"""Every position of the window holds a token."""
EDGE: Final = "edge"
"""The window extends beyond an end of its text."""
TRIGRAM: Final = "trigram"
"""The three tokens in the middle of a longer window."""
PAIR: Final = "pair"
"""Two neighbours: the left bi-gram of the second token and the right bi-gram of the first."""
TOKEN: Final = "token"  # noqa: S105 - a token of text

_BITS_OF_A_WORD = 63


@dataclass(frozen=True)
class Window:
    """`n` positions around a token, `before` of them in front of it; `missing` is the id of an empty one."""

    n: int
    missing: int

    @property
    def before(self) -> int:
        return self.n // 2

    @property
    def after(self) -> int:
        return self.n - 1 - self.before

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of fragments that are counted, each in a table of its own."""
        middle = (TRIGRAM,) if self.n > 3 else ()
        neighbours = (PAIR,) if self.n > 2 else ()
        return (FULL, EDGE, *middle, *neighbours, TOKEN)

    def of_sequences(self, sequences: Sequence[Ids]) -> dict[str, Ids]:
        """The occurrences of each kind as rows [n]; a pair is the left bi-gram of its second token."""
        gap = max(self.before, self.after, 1)
        blank = np.full(gap, self.missing, dtype=np.int64)
        stream = np.concatenate([part for ids in sequences for part in (blank, ids)] + [blank])
        middle = np.flatnonzero(stream != self.missing)
        windows = sliding_window_view(stream, self.n)[middle - self.before]
        whole = (windows != self.missing).all(axis=1)
        found = {FULL: windows[whole], EDGE: windows[~whole], TOKEN: self.unigrams(stream[middle])}
        if self.n > 2:
            pairs = self.keep_positions(windows, (self.before - 1, self.before))
            found[PAIR] = pairs[pairs[:, self.before - 1] != self.missing]
        if self.n > 3:
            positions = (self.before - 1, self.before, self.before + 1)
            threes = self.keep_positions(windows, positions)
            found[TRIGRAM] = threes[(threes[:, positions] != self.missing).all(axis=1)]
        return found

    def keep_positions(self, windows: Ids, positions: Sequence[int]) -> Ids:
        """The windows [F, n] with all other positions missing."""
        kept = np.full(windows.shape, self.missing, dtype=np.int64)
        kept[:, list(positions)] = windows[:, list(positions)]
        return kept

    def unigrams(self, tokens: Ids) -> Ids:
        """The uni-grams [F, n] of tokens [F]."""
        windows = np.full((len(tokens), self.n), self.missing, dtype=np.int64)
        windows[:, self.before] = tokens
        return windows

    def both_bigrams(self, pairs: Ids) -> Ids:
        """The left bi-grams of these pairs, and the right ones where the window reaches beyond its token."""
        if not self.after:
            return pairs
        right = np.full(pairs.shape, self.missing, dtype=np.int64)
        right[:, self.before : self.before + 2] = pairs[:, self.before - 1 : self.before + 1]
        return np.concatenate((pairs, right))


@dataclass(frozen=True)
class Packing:
    """Packs fragments into few integers to count by; their order is that of the ids."""

    window: Window

    @property
    def _bits(self) -> int:
        return self.window.missing.bit_length()

    @property
    def _per_word(self) -> int:
        return _BITS_OF_A_WORD // self._bits

    @property
    def words(self) -> int:
        """Integers per fragment: one up to n = 4 and 32,767 ids, two for most others."""
        return -(-self.window.n // self._per_word)

    @property
    def columns(self) -> tuple[str, ...]:
        """The column names of the integers."""
        return tuple(f"w{number}" for number in range(self.words))

    def pack(self, fragments: Ids) -> list[Ids]:
        """One array [F] per integer, for fragments [F, n]."""
        packed = []
        for start in range(0, self.window.n, self._per_word):
            word = np.zeros(len(fragments), dtype=np.int64)
            for position in range(start, min(start + self._per_word, self.window.n)):
                word = (word << self._bits) | fragments[:, position]
            packed.append(word)
        return packed

    def unpack(self, words: Sequence[Ids]) -> Ids:
        """The inverse of `pack`."""
        fragments = np.empty((len(words[0]), self.window.n), dtype=np.int64)
        mask = (1 << self._bits) - 1
        for number, word in enumerate(words):
            positions = range(number * self._per_word, min((number + 1) * self._per_word, self.window.n))
            rest = word
            for position in reversed(positions):
                fragments[:, position] = rest & mask
                rest = rest >> self._bits
        return fragments
