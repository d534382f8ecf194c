"""From token ids to the states at the cut, by looking up instead of computing (paper sections 3.3.1, 6.1)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from inference.engine.rows import Hits, Row
from inference.hplm.fragments import of_sequence
from inference.hplm.plot import PlotChain


@dataclass(frozen=True, slots=True, eq=False)
class Retrieved:
    """A batch as it stands in host memory: slots [B, T, 3, d] fp16, undefined past each row's length;
    lengths [B] int64; the position bias of each row, [P, d] where all share one chain, else [B, P, d]."""

    slots: Tensor
    lengths: Tensor
    position_bias: Tensor
    hits: list[Hits]


def retrieve(rows: Sequence[Row], chains: Mapping[str, PlotChain]) -> Retrieved:
    """Look up the fragments of all rows, once per chain; raises what a chain raises."""
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    names = sorted({row.chain for row in rows})
    hidden = chains[names[0]].position_bias.shape[1]
    slots = np.empty((len(rows), int(lengths.max()), 3, hidden), dtype=np.float16)
    hits = [Hits()] * len(rows)
    for name in names:
        members = [at for at, row in enumerate(rows) if row.chain == name]
        _look_up(rows, members, chains[name], slots, hits)
    return Retrieved(
        torch.from_numpy(slots), torch.from_numpy(lengths), _position_bias(rows, names, chains), hits
    )


def _look_up(
    rows: Sequence[Row],
    members: list[int],
    chain: PlotChain,
    slots: NDArray[np.float16],
    hits: list[Hits],
) -> None:
    """Fill ``slots`` and ``hits`` for the rows of one chain."""
    found = chain.lookup(np.concatenate([of_sequence(rows[at].ids, chain.missing_id) for at in members]))
    start = 0
    for at in members:
        span = slice(start, start + len(rows[at]))
        np.take(found.unique, found.inverse[span], axis=0, out=slots[at, : len(rows[at])])
        hits[at] = Hits(*np.bincount(found.level[span], minlength=3).tolist())
        start = span.stop


def _position_bias(rows: Sequence[Row], names: list[str], chains: Mapping[str, PlotChain]) -> Tensor:
    if len(names) == 1:
        return chains[names[0]].position_bias
    each = torch.stack([chains[name].position_bias for name in names])
    return each[torch.tensor([names.index(row.chain) for row in rows])]
