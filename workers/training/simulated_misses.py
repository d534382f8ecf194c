"""Simulates a lookup table that lacks rare fragments: the level at which each fragment of a text is found.

Misses are not random: rare fragments are missing, and so are those around them (paper section 7.7). So
conversion is trained and measured with the table that its own corpus would give.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from inference.hplm import fragments
from workers.training.corpus import Ids
from workers.training.ngrams import EDGE, PAIR, TOKEN, Window
from workers.training.sequences import Batch

Levels = npt.NDArray[np.int64]
LevelFunction = Callable[[Ids], Levels]
"""From the complete fragments [T, n] of a sequence to the level [T] at which each is looked up."""

# Fragments of at most this many tokens at the ends of texts are kept whenever they occur.
SMALL_EDGE = 2
TEXTS_PER_CHUNK = 512


def shorten_to_levels(complete: Ids, levels: Levels, missing: int) -> Ids:
    """Shorten complete fragments [T, n] to their levels [T]."""
    shortened = complete.copy()
    for level in np.unique(levels):
        chosen = levels == level
        shortened[chosen] = fragments.shorten(complete[chosen], int(level), missing)
    return shortened


def shorten_batch(batch: Batch, level_function: LevelFunction, missing: int) -> Batch:
    """The same batch, whose fragments are looked up at these levels."""
    # Levels depend on the fragments alone, so one call does all sequences.
    levels = level_function(batch.fragments)
    return batch.with_lookups(shorten_to_levels(batch.fragments, levels, missing))


def constant_level(level: int) -> LevelFunction:
    """Look up every fragment at this level; those at the ends of a text may be shorter still."""
    return lambda complete: np.full(len(complete), level, dtype=np.int64)


def ladders_to_choose(n: int) -> dict[str, tuple[str, ...]]:
    """The ladders that a root of fragments of n tokens may have, by their names; shorter ones first."""
    names = tuple(fragments.level_names(n))
    without = tuple(name for name in names if name == names[0] or not name.endswith("_bigram"))
    return {"without bi-grams": without, "all": names} if without != names else {"all": names}


@dataclass(frozen=True)
class FragmentFrequencies:
    """kinds: kind of fragment -> different fragments [F, n], ordered by ids, and their counts [F]."""

    window: Window
    kinds: Mapping[str, tuple[Ids, Ids]]

    @classmethod
    def of(cls, sequences: Iterable[Ids], n: int, missing: int) -> "FragmentFrequencies":
        """Count the fragments of sequences; their occurrences must fit memory."""
        window, found = Window(n, missing), dict[str, list[Ids]]()
        for chunk in _chunks(sequences):
            for kind, occurrences in window.of_sequences(chunk).items():
                if kind != TOKEN:
                    found.setdefault(kind, []).append(occurrences)
        return cls(window, {kind: _count(np.concatenate(parts)) for kind, parts in found.items()})


def _chunks(sequences: Iterable[Ids]) -> Iterator[list[Ids]]:
    chunk: list[Ids] = []
    for sequence in sequences:
        chunk.append(sequence)
        if len(chunk) == TEXTS_PER_CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _count(occurrences: Ids) -> tuple[Ids, Ids]:
    _, different, inverse = fragments.unique(occurrences)
    order = np.lexsort(different.T[::-1])
    return different[order], np.bincount(inverse).astype(np.int64)[order]


class SimulatedTable:
    """The keys of the table that keeps the fragments covering `alpha` % of the counted occurrences.

    ladder: the names of the levels that the table holds (default: all).
    """

    def __init__(
        self, frequencies: FragmentFrequencies, alpha: float, ladder: Collection[str] | None = None
    ) -> None:
        self._window = frequencies.window
        names = fragments.level_names(self._window.n)
        self._ladder = names if ladder is None else ladder
        self._held = np.array([name in self._ladder for name in names])
        self._keys = [self._kept_keys(frequencies, alpha, less) for less in (0, 1)]

    def levels(self, complete: Ids, *, leave_one_out: bool) -> Levels:
        """The level [T] at which each fragment [T, n] would be found.

        leave_one_out: do not count the fragment's own occurrence, for a text that was itself counted.
        """
        n, missing = self._window.n, self._window.missing
        levels = np.full(len(complete), fragments.level_count(n) - 1, dtype=np.int64)
        left = np.arange(len(complete))
        incomplete = fragments.fragment_levels(complete, missing) > 0
        for level in fragments.fallback_order(n)[:-1]:
            # At the ends of a text a part may be of a later level than this one, and be held without it.
            sought = left if self._held[level] else left[incomplete[left]]
            keys = fragments.pack(fragments.shorten(complete[sought], level, missing))
            found = sought[_contains(self._keys[int(leave_one_out)], keys)]
            levels[found] = level
            left = np.setdiff1d(left, found, assume_unique=True)
        return levels

    def level_function(self, *, leave_one_out: bool) -> LevelFunction:
        """`levels` as a function of the fragments alone."""
        return lambda complete: self.levels(complete, leave_one_out=leave_one_out)

    def _kept_keys(self, frequencies: FragmentFrequencies, alpha: float, less: int) -> Ids:
        """The kept keys, ascending, if each fragment had occurred `less` times fewer."""
        keys = []
        for kind, (different, counts) in frequencies.kinds.items():
            minimum, ties = _covering(counts, alpha)
            remaining = counts - less
            chosen = (remaining > minimum) | ((remaining == minimum) & ties)
            if kind == EDGE:
                small = (different != self._window.missing).sum(axis=1) <= SMALL_EDGE
                chosen = np.where(small, remaining > 0, chosen)
            kept = different[chosen]
            if kind == PAIR:
                kept = self._window.both_bigrams(kept)
            if kind != EDGE:
                kept = kept[fragments.in_ladder(kept, self._ladder, self._window.missing)]
            keys.append(fragments.pack(kept))
        return np.unique(np.concatenate(keys))


def _covering(counts: Ids, alpha: float) -> tuple[int, npt.NDArray[np.bool_]]:
    """The minimum count of a kept fragment, and which fragments with exactly that count are kept: the first
    ones, as far as the coverage needs them.
    """
    if alpha <= 0 or not len(counts):
        return np.iinfo(np.int64).max, np.zeros(len(counts), dtype=bool)
    order = np.argsort(-counts, kind="stable")
    covered = np.cumsum(counts[order])
    last = order[int(np.searchsorted(covered * 100.0, alpha * float(covered[-1]), side="left"))]
    return int(counts[last]), np.arange(len(counts)) <= last


def _contains(keys: Ids, wanted: Ids) -> npt.NDArray[np.bool_]:
    if not len(keys):
        return np.zeros(len(wanted), dtype=bool)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    found: npt.NDArray[np.bool_] = keys[at] == wanted
    return found


@dataclass(frozen=True)
class MissSampler:
    """Draws how a training sequence is looked up: a share with complete fragments, a share as in a table, and
    the rest by uni-grams alone.
    """

    table: SimulatedTable
    complete_share: float
    table_share: float

    def sample(self, complete: Ids, rng: np.random.Generator, missing: int) -> Ids:
        """The fragments to look up in place of the complete ones [T, n] of a sequence."""
        chance = rng.random()
        if chance < self.complete_share:
            return complete
        if chance < self.complete_share + self.table_share:
            return shorten_to_levels(complete, self.table.levels(complete, leave_one_out=True), missing)
        unigrams = constant_level(fragments.level_count(complete.shape[1]) - 1)
        return shorten_to_levels(complete, unigrams(complete), missing)
