"""One text at a time and one fragment at a time: what each way of making states at the cut should give."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from inference.hplm import fragments
from inference.hplm.compose import Composition, compose
from inference.hplm.miss_policy import MissHandling, MissPolicy
from inference.hplm.plot_lookup import LowerLayers

Ids = NDArray[np.int64]

FALLBACK, COMPUTE = MissHandling(MissPolicy.FALLBACK), MissHandling(MissPolicy.COMPUTE)
WHOLE = MissHandling(MissPolicy.AUTO, tolerance=0.0)
"""Nothing is good enough, so that whatever misses a fragment is computed whole."""
WAYS = (FALLBACK, COMPUTE, WHOLE)


@torch.no_grad()
def states_alone(half: LowerLayers, ids: Ids, types: Ids, misses: MissHandling) -> Tensor:
    """States [T, d] of ids and types [T] by one of the three ways."""
    lookup = half.chain.lookup(fragments.extract(ids, half.chain.missing_id, half.chain.n))
    if misses is not WHOLE or not lookup.level.any():
        return _by_fragment(half, ids, types, compute=misses is COMPUTE)
    assert half.full is not None
    mask = torch.ones(1, len(ids), dtype=torch.bool)
    whole: Tensor = half.full(torch.from_numpy(ids)[None], mask, torch.from_numpy(types)[None])[0]
    return whole


def _by_fragment(half: LowerLayers, ids: Ids, types: Ids, *, compute: bool) -> Tensor:
    """Each fragment looked up by itself; with `compute`, those that no table holds are computed instead."""
    assert half.local is not None
    rows = []
    for fragment in fragments.extract(ids, half.chain.missing_id, half.chain.n):
        found = half.chain.lookup(fragment[None])
        if compute and found.level[0]:
            rows.append(half.local(torch.from_numpy(fragment[None].copy()))[0])
        else:
            rows.append(torch.from_numpy(found.vectors[0]).float())
    return composed(torch.stack(rows), types, half.chain.composition)


def composed(rows: Tensor, types: Ids, parts: Composition) -> Tensor:
    """The states [T, d] of one text, from its rows [T, n, d]."""
    of_types = torch.from_numpy(types)[None]
    return compose(rows[None], torch.tensor([len(rows)]), parts, of_types)[0].detach()
