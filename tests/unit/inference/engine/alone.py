"""One text at a time and one fragment at a time: what each level of states at the cut should give."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from inference.cascade.dispatcher import Level
from inference.hplm import fragments
from inference.hplm.compose import Composition, compose
from inference.hplm.plot_lookup import LowerLayers

Ids = NDArray[np.int64]


@torch.no_grad()
def states_alone(half: LowerLayers, ids: Ids, types: Ids, level: Level) -> Tensor:
    """States [T, d] of ids and types [T] at the level."""
    if level is Level.TABLE:
        return _by_fragment(half, ids, types)
    assert half.full is not None
    mask = torch.ones(1, len(ids), dtype=torch.bool)
    whole: Tensor = half.full(torch.from_numpy(ids)[None], mask, torch.from_numpy(types)[None])[0]
    return whole


def _by_fragment(half: LowerLayers, ids: Ids, types: Ids) -> Tensor:
    """Each fragment looked up by itself."""
    rows = [
        torch.from_numpy(half.chain.lookup(fragment[None]).vectors[0]).float()
        for fragment in fragments.extract(ids, half.chain.missing_id, half.chain.n)
    ]
    return composed(torch.stack(rows), types, half.chain.composition)


def composed(rows: Tensor, types: Ids, parts: Composition) -> Tensor:
    """The states [T, d] of one text, from its rows [T, n, d]."""
    of_types = torch.from_numpy(types)[None]
    return compose(rows[None], torch.tensor([len(rows)]), parts, of_types)[0].detach()
