"""Chooses the rows of a lookup table by what they are worth, up to a number of rows (paper section 7.7)."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from inference.hplm.fragments import in_ladder
from workers.training.fragment_counts import FragmentTables, kind_name, write_chosen
from workers.training.ngrams import EDGE, FULL, PAIR, TOKEN, Ids, Window

SHARE_OF_STAND_IN: Final = 0.1
"""What a row saves where an ancestor's table has the same fragment, over what a complete fragment saves where
the uni-gram stands in for it. Uni-grams are always such rows: the root's table has all."""


@dataclass(frozen=True, eq=False)
class _Candidates:
    """Fragments [F, n] of a kind, their keys, counts and worth [F]; how many the corpus has of the kind."""

    kind: str
    fragments: Ids
    keys: Ids
    counts: Ids
    worth: npt.NDArray[np.float64]
    different: int
    occurrences: int


def choose_best(
    tables: FragmentTables,
    window: Window,
    counted: Sequence[Path],
    out: Path,
    *,
    rows: int,
    ladder: Collection[str],
    above: Sequence[Ids],
    vocabulary: int | None,
    key_of: Callable[[Ids], Ids],
    on_progress: Callable[[int], None],
) -> dict[str, Any]:
    """Write the `rows` fragments worth most to `out`, ordered by key, and report as `choose_fragments`.

    A fragment is worth its count in the corpus times the error that its row saves, which hardly depends on
    more than what stands in for it: the uni-gram, or a row of an ancestor's table (`SHARE_OF_STAND_IN`).
    Shorter parts of fragments count as the latter, as most of their occurrences are found whole. above: the
    keys of the ancestors' tables, each ascending. Of a root, which is the last fallback, all uni-grams of a
    vocabulary of this size are kept, whatever `rows` is. Every machine chooses the same.
    """
    found = []
    for kind in window.kinds:
        on_progress(0)
        tables.load_counts(kind, [folder / f"{kind}.parquet" for folder in counted])
        if kind != TOKEN or vocabulary is None:
            found.append(_candidates(tables, window, kind, rows, ladder, above, key_of))
    every = window.unigrams(np.arange(vocabulary or 0, dtype=np.int64))
    tables.choose(key_of(every), every)
    coverage, different = {}, {}
    for of_kind, best in zip(found, _best(found, rows - len(every)), strict=True):
        tables.choose(of_kind.keys[best], of_kind.fragments[best])
        if of_kind.kind not in (EDGE, TOKEN):
            name = kind_name(of_kind.kind, window.n)
            different[name] = of_kind.different
            coverage[name] = int(of_kind.counts[best].sum()) / max(1, of_kind.occurrences)
    return {
        "rows": write_chosen(tables, out, on_progress),
        "coverage": coverage,
        "different": different,
        "tokens": tables.total(TOKEN)[1],
    }


def _candidates(
    tables: FragmentTables,
    window: Window,
    kind: str,
    rows: int,
    ladder: Collection[str],
    above: Sequence[Ids],
    key_of: Callable[[Ids], Ids],
) -> _Candidates:
    """The fragments of a kind that may be among the `rows` best of all."""
    different, occurrences = tables.total(kind)
    # As many as ancestors have may be worth less than rarer ones.
    fragments, counts = tables.most_frequent(kind, rows + sum(map(len, above)))
    if kind == PAIR:
        fragments = window.both_bigrams(fragments)
        sides = len(fragments) // max(1, len(counts))
        counts, occurrences = np.tile(counts, sides), occurrences * sides
    if kind != EDGE:
        wanted = in_ladder(fragments, ladder, window.missing)
        fragments, counts = fragments[wanted], counts[wanted]
    keys = key_of(fragments)
    stands_in = np.full(len(keys), kind not in (FULL, EDGE))
    for held in above:
        stands_in |= np.isin(keys, held)
    worth = counts.astype(np.float64)
    worth[stands_in] *= SHARE_OF_STAND_IN
    return _Candidates(kind, fragments, keys, counts, worth, different, occurrences)


def _best(found: Sequence[_Candidates], rows: int) -> Iterator[npt.NDArray[np.int64]]:
    """The indices of each candidates' fragments among the `rows` worth most of all; of those worth the same
    the ones with the smallest keys."""
    worth = np.concatenate([one.worth for one in found])
    keys = np.concatenate([one.keys for one in found])
    order = np.lexsort((keys, -worth))
    # A bi-gram may also be the fragment at an end of a text.
    first = np.sort(np.unique(keys[order], return_index=True)[1])
    kept = order[first[: max(0, rows)]]
    ends = np.cumsum([len(one.keys) for one in found])
    for end, one in zip(ends, found, strict=True):
        of_kind = kept[(kept >= end - len(one.keys)) & (kept < end)]
        yield of_kind - (end - len(one.keys))
