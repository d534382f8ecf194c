"""From token ids to the states at the cut, by looking up what can be (paper sections 3.3.1, 6.1)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from inference.engine.rows import Hits, Row
from inference.hplm.miss_policy import MissPolicy
from inference.hplm.misses import Counts, LowerHalf, fill


class LowerHalves(Protocol):
    """What the engine is given to look up and compute with."""

    def half(self, chain: str, *, computing: bool) -> LowerHalf:
        """The lower half behind a chain; with the means to compute what it lacks where they are wanted and
        can be had. KeyError for an unknown chain."""


@dataclass(frozen=True, slots=True, eq=False)
class Retrieved:
    """A batch at the cut: states [B, T, d] and mask [B, T] bool on the device; per row, how its fragments
    were answered, and which of them its chain lacks."""

    states: Tensor
    mask: Tensor
    hits: list[Hits]
    missed: list[NDArray[np.int64]]


def retrieve(rows: Sequence[Row], halves: LowerHalves) -> Retrieved:
    """Look up the fragments of all rows, once per chain, and compute what the rows' policies say; raises what
    a chain raises."""
    computing = {row.chain for row in rows if row.misses.policy is not MissPolicy.FALLBACK}
    found = {chain: halves.half(chain, computing=chain in computing) for chain in {row.chain for row in rows}}
    filled = fill(
        [row.ids for row in rows],
        [found[row.chain] for row in rows],
        [row.misses for row in rows],
        [row.types for row in rows],
    )
    return Retrieved(filled.states, filled.mask, [_hits(counts) for counts in filled.counts], filled.missed)


def _hits(counts: Counts) -> Hits:
    return Hits(counts.full, counts.part, counts.single, counts.computed, int(counts.whole))
