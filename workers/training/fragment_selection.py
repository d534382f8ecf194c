"""Which of the counted fragments a table keeps (paper sections 5.1 and 7.7)."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from inference.hplm.errors import HplmError
from workers.training.fragment_counts import FragmentTables
from workers.training.ngrams import EDGE, FULL, PAIR, TOKEN, TRIGRAM, Ids, Window

CHOSEN_FILE: Final = "fragments.i4"
"""Rows of n int32 ids, in the order of their keys in the table."""
_SMALL_EDGE: Final = 2


def choose_fragments(
    tables: FragmentTables,
    window: Window,
    counted: Sequence[Path],
    out: Path,
    *,
    alpha: float,
    vocabulary: int | None,
    key_of: Callable[[Ids], Ids],
    told: Callable[[int], None],
) -> dict[str, Any]:
    """Write the fragments worth keeping to `out`, in the order of their keys (`key_of` fragments [F, n]), and
    report {rows, coverage, different, tokens}.

    Kept are the most frequent full fragments, shorter ones and bi-grams that cover `alpha` % of the
    occurrences of each; the fragments of at most two tokens at the ends of texts, of which there are no more
    than words, and the longer ones there that cover `alpha` %; the uni-grams of the corpus, or of a whole
    vocabulary of so many ids (for a root, whose table is the last resort).
    """
    coverage, different = {}, {}
    for kind in window.kinds:
        told(0)
        tables.load_counts(kind, [folder / f"{kind}.parquet" for folder in counted])
        if kind in (FULL, TRIGRAM, PAIR):
            name = kind_name(kind, window.n)
            different[name], occurrences = tables.total(kind)
            _, covered = tables.keep_covering(kind, alpha)
            coverage[name] = covered / occurrences if occurrences else 0.0
        for part in _kept(tables, window, kind, alpha):
            tables.choose(key_of(part), part)
    _, tokens = tables.total(TOKEN)
    if vocabulary is not None:
        every = window.alone(np.arange(vocabulary, dtype=np.int64))
        tables.choose(key_of(every), every)
    rows = _write(tables, out, told)
    return {"rows": rows, "coverage": coverage, "different": different, "tokens": tokens}


def kind_name(kind: str, n: int) -> str:
    """What people call a kind of fragment in a window of n."""
    if kind == PAIR or (kind == FULL and n == 2):
        return "bigram"
    return "trigram" if kind == TRIGRAM or n == 3 else f"{n}-gram"


def _kept(tables: FragmentTables, window: Window, kind: str, alpha: float) -> Iterator[Ids]:
    if kind == EDGE:
        for part in tables.fragments(EDGE):
            yield part[(part != window.missing).sum(axis=1) <= _SMALL_EDGE]
        if window.n > _SMALL_EDGE + 1:
            tables.keep_covering(EDGE, alpha)
            yield from tables.fragments(EDGE)
        return
    for part in tables.fragments(kind):
        yield window.both_bigrams(part) if kind == PAIR else part


def _write(tables: FragmentTables, out: Path, told: Callable[[int], None]) -> int:
    rows, last = 0, None
    with out.open("xb") as file:
        for keys, part in tables.chosen():
            told(0)
            if bool((np.diff(keys) <= 0).any()) or (last is not None and keys[0] <= last):
                raise HplmError("internal", "Two fragments of this corpus have the same key.")
            last = int(keys[-1])
            file.write(np.ascontiguousarray(part, dtype=np.int32).data)
            rows += len(part)
    return rows
