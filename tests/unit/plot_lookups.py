"""What lookup tables hold, as arrays of vectors."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inference.hplm.plot import PlotChain, PlotTable
from inference.hplm.row_cache import gather_all, rows_to_gather


@dataclass(frozen=True)
class LookedUp:
    """Of N fragments: the vectors [N, n, d], the level of the hit [N], and the index of its table [N]."""

    vectors: NDArray[np.float16]
    level: NDArray[np.uint8]
    table: NDArray[np.uint8]


def looked_up(chain: PlotChain, fragments: NDArray[np.int64]) -> LookedUp:
    """What the chain has for fragments [N, n] int64."""
    found = chain.search(fragments)
    _, [gathered] = gather_all([rows_to_gather(chain.tables, found)])
    at = found.inverse
    return LookedUp(gathered.rows.numpy()[gathered.position[at]], found.level[at], found.table[at])


def all_vectors(table: PlotTable) -> NDArray[np.float16]:
    """The vectors [R, n, d] of all rows."""
    vectors = np.empty((len(table), table.n, table.hidden), dtype=np.float16)
    table.read(np.arange(len(table)), vectors)
    return vectors
