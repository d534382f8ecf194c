"""What a table lacks: at which level the fragments of a text are read when a table holds but the frequent
ones (paper section 7.7).

Which fragments are missing is not random: the rare ones are, and so are their neighbours'. So the gaps that a
conversion is trained and measured with are those of the table that its own corpus would give.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from inference.hplm import fragments
from workers.training.corpus import Ids
from workers.training.ngrams import EDGE, PAIR, TOKEN, Window

Levels = npt.NDArray[np.int64]
Reading = Callable[[Ids], Levels]
"""From the fragments [T, n] of a sequence to the level [T] at which each is read."""

# Fragments of so few tokens at the ends of texts are kept whenever they were seen.
SMALL_EDGE = 2
TEXTS_PER_CHUNK = 512


def read_at(whole: Ids, levels: Levels, missing: int) -> Ids:
    """Fragments [T, n] without what their levels [T] lack."""
    read = whole.copy()
    for level in np.unique(levels):
        chosen = levels == level
        read[chosen] = fragments.shorten(whole[chosen], int(level), missing)
    return read


def everywhere(level: int) -> Reading:
    """Every fragment read at this level, but for those at the ends of a text that lack more."""
    return lambda whole: np.full(len(whole), level, dtype=np.int64)


@dataclass(frozen=True)
class Frequencies:
    """kinds: kind of fragment -> different fragments [F, n] in the order of their ids, and how often each
    occurred [F].
    """

    window: Window
    kinds: Mapping[str, tuple[Ids, Ids]]

    @classmethod
    def of(cls, sequences: Iterable[Ids], n: int, missing: int) -> "Frequencies":
        """Count the fragments of framed sequences; their occurrences must fit memory."""
        window, found = Window(n, missing), dict[str, list[Ids]]()
        for part in _some(sequences):
            for kind, occurrences in window.of_sequences(part).items():
                if kind != TOKEN:
                    found.setdefault(kind, []).append(occurrences)
        return cls(window, {kind: _counted(np.concatenate(parts)) for kind, parts in found.items()})


def _some(sequences: Iterable[Ids]) -> Iterator[list[Ids]]:
    part: list[Ids] = []
    for sequence in sequences:
        part.append(sequence)
        if len(part) == TEXTS_PER_CHUNK:
            yield part
            part = []
    if part:
        yield part


def _counted(occurrences: Ids) -> tuple[Ids, Ids]:
    _, different, inverse = fragments.unique(occurrences)
    order = np.lexsort(different.T[::-1])
    return different[order], np.bincount(inverse).astype(np.int64)[order]


class TableGaps:
    """The gaps of the table that keeps the fragments covering `alpha` % of what was counted."""

    def __init__(self, frequencies: Frequencies, alpha: float) -> None:
        self._window = frequencies.window
        self._kept = [self._keys(frequencies, alpha, spare) for spare in (0, 1)]

    def levels(self, whole: Ids, *, counted: bool) -> Levels:
        """The level [T] at which each fragment [T, n] would be found.

        counted: the text is one of those that were counted; then its own occurrence does not count.
        """
        n, missing = self._window.n, self._window.missing
        levels = np.full(len(whole), fragments.level_count(n) - 1, dtype=np.int64)
        left = np.arange(len(whole))
        for level in fragments.fallback_order(n)[:-1]:
            sought = fragments.pack(fragments.shorten(whole[left], level, missing))
            hit = _among(self._kept[int(counted)], sought)
            levels[left[hit]] = level
            left = left[~hit]
        return levels

    def reading(self, *, counted: bool) -> Reading:
        """`levels` as a function of the fragments alone."""
        return lambda whole: self.levels(whole, counted=counted)

    def _keys(self, frequencies: Frequencies, alpha: float, spare: int) -> Ids:
        """Keys, ascending, of what is kept when each fragment was seen `spare` times less."""
        keys = []
        for kind, (different, counts) in frequencies.kinds.items():
            least, ties = _covering(counts, alpha)
            seen = counts - spare
            chosen = (seen > least) | ((seen == least) & ties)
            if kind == EDGE:
                small = (different != self._window.missing).sum(axis=1) <= SMALL_EDGE
                chosen = np.where(small, seen > 0, chosen)
            kept = different[chosen]
            keys.append(fragments.pack(self._window.both_bigrams(kept) if kind == PAIR else kept))
        return np.unique(np.concatenate(keys))


def _covering(counts: Ids, alpha: float) -> tuple[int, npt.NDArray[np.bool_]]:
    """The least count that is kept, and which fragments are kept if they have it: the first ones, as far as
    the coverage needs them.
    """
    if alpha <= 0 or not len(counts):
        return np.iinfo(np.int64).max, np.zeros(len(counts), dtype=bool)
    order = np.argsort(-counts, kind="stable")
    covered = np.cumsum(counts[order])
    last = order[int(np.searchsorted(covered * 100.0, alpha * float(covered[-1]), side="left"))]
    return int(counts[last]), np.arange(len(counts)) <= last


def _among(keys: Ids, sought: Ids) -> npt.NDArray[np.bool_]:
    if not len(keys):
        return np.zeros(len(sought), dtype=bool)
    at = np.minimum(np.searchsorted(keys, sought), len(keys) - 1)
    found: npt.NDArray[np.bool_] = keys[at] == sought
    return found


@dataclass(frozen=True)
class Patterns:
    """How texts are read while something learns from them: a share with every fragment there, a share as a
    table would have it, and the rest by uni-grams alone.
    """

    gaps: TableGaps
    complete: float
    table: float

    def draw(self, whole: Ids, rng: np.random.Generator, missing: int) -> Ids:
        """What is read in place of the fragments [T, n] of one sequence."""
        chance = rng.random()
        if chance < self.complete:
            return whole
        if chance < self.complete + self.table:
            return read_at(whole, self.gaps.levels(whole, counted=True), missing)
        return read_at(whole, everywhere(fragments.level_count(whole.shape[1]) - 1)(whole), missing)
