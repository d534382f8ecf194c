"""The levels of rows: their states at the cut by lookup (paper sections 3.3.1, 6.1) or in full, and which
rows go on to the level FULL."""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from inference.cascade.confidence import confidence
from inference.cascade.dispatcher import Coverage, Level
from inference.engine.rows import Row
from inference.hplm.plot_lookup import LookupResult, LowerLayers, lookup


class LowerLayersSource(Protocol):
    """What the engine is given to look up and compute with."""

    def for_chain(self, chain: str, *, full: bool) -> LowerLayers:
        """The lower half behind a chain; with `full` also the layers that compute it, which are loaded where
        they are not. KeyError for an unknown chain, HplmError where they cannot be had."""


def retrieval(rows: Sequence[Row], lower_layers: LowerLayersSource) -> Callable[[], LookupResult]:
    """A function that looks up the rows' fragments, once per chain. The lower halves are chosen now, in the
    thread that knows what is served; any thread may call the function. It raises what choosing raised."""
    full = {row.chain for row in rows if row.level is Level.FULL}
    try:
        found = {row.chain: lower_layers.for_chain(row.chain, full=row.chain in full) for row in rows}
    except Exception as error:  # noqa: BLE001 - of one row's chain: the batch is to fail, not the caller
        failure = error

        def fail() -> LookupResult:
            raise failure

        return fail
    ids, types = [row.ids for row in rows], [row.types for row in rows]
    own, levels = [found[row.chain] for row in rows], [row.level for row in rows]
    explain = [row.explain for row in rows]
    return lambda: lookup(ids, own, levels, types, explain)


def escalated_rows(
    rows: Sequence[Row], logits: Sequence[NDArray[np.float32]], coverage: Sequence[Coverage]
) -> set[int]:
    """The places of the rows that their dispatchers send on to the level FULL."""
    return {at for at, row in enumerate(rows) if _escalates(row, logits[at], coverage[at])}


def _escalates(row: Row, logits: NDArray[np.float32], coverage: Coverage) -> bool:
    """Whether the row's dispatcher sends it on, by what it was answered from the tables."""
    own = row.dispatcher
    if own is None or row.level is Level.FULL or not np.isfinite(logits).all():
        return False
    sure = confidence(own.kind, logits, own.temperature, own.threshold)
    return own.escalates(own.certainty(sure, coverage), row.text_hash)
