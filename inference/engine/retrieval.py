"""From token ids to the states at the cut, by looking up what can be (paper sections 3.3.1, 6.1)."""

from collections.abc import Callable, Sequence
from typing import Protocol

from inference.cascade.dispatcher import Level
from inference.engine.rows import Row
from inference.hplm.plot_lookup import LookupResult, LowerLayers, lookup


class LowerLayersSource(Protocol):
    """What the engine is given to look up and compute with."""

    def for_chain(self, chain: str, *, full: bool) -> LowerLayers:
        """The lower half behind a chain; with `full` also the layers that compute it, which are loaded where
        they are not. KeyError for an unknown chain, HplmError where they cannot be had."""


def retrieval(rows: Sequence[Row], lower_layers: LowerLayersSource) -> Callable[[], LookupResult]:
    """What looks the rows' fragments up, once per chain. The lower halves are chosen now, by the thread that
    knows what is served; the looking up may be another's. It raises what choosing them raised."""
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
