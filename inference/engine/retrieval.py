"""From token ids to the states at the cut, by looking up what can be (paper sections 3.3.1, 6.1)."""

from collections.abc import Callable, Sequence
from typing import Protocol

from inference.engine.rows import Hits, Row
from inference.hplm.miss_policy import MissPolicy
from inference.hplm.plot_lookup import HitCounts, LookupResult, LowerLayers, lookup


class LowerLayersSource(Protocol):
    """What the engine is given to look up and compute with."""

    def for_chain(self, chain: str, *, computing: bool) -> LowerLayers:
        """The lower half behind a chain; with the means to compute what it lacks where they are wanted and
        can be had. KeyError for an unknown chain."""


def retrieval(rows: Sequence[Row], lower_layers: LowerLayersSource) -> Callable[[], LookupResult]:
    """What looks the rows' fragments up, once per chain. The lower halves are chosen now, by the thread that
    knows what is served; the looking up may be another's. It raises what choosing them raised."""
    computing = {row.chain for row in rows if row.misses.policy is not MissPolicy.FALLBACK}
    try:
        found = {
            row.chain: lower_layers.for_chain(row.chain, computing=row.chain in computing) for row in rows
        }
    except Exception as error:  # noqa: BLE001 - of one row's chain: the batch is to fail, not the caller
        failure = error

        def fail() -> LookupResult:
            raise failure

        return fail
    ids, types = [row.ids for row in rows], [row.types for row in rows]
    own, misses = [found[row.chain] for row in rows], [row.misses for row in rows]
    explain = [row.explain for row in rows]
    return lambda: lookup(ids, own, misses, types, explain)


def hits_of(counts: HitCounts) -> Hits:
    """A text's counts, as the engine tells them."""
    return Hits(counts.exact, counts.shorter, counts.unigram, counts.computed, int(counts.full_context))
