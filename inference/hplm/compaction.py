"""Several tables of a chain made into one that gives the same answers."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from inference.hplm.fragments import N, level_count, level_names, level_of, unpack
from inference.hplm.plot import PlotTable
from inference.hplm.plot_writer import Rows, write_rows
from inference.hplm.quantise import FLOAT16, stored

ROWS_AT_ONCE: Final = 4096


def merge(
    tables: Sequence[PlotTable], out: Path, told: Callable[[int], None] = lambda _: None
) -> dict[str, Any]:
    """Write one table that answers every fragment as `tables`, nearest first, do in this order; returns what
    its plot.json says.

    A lookup goes level by level, and in each through all tables, so of several rows of one key the nearest
    counts. Rows are copied as they are stored; where the tables store them differently, as float16. The
    composition is the nearest table's. Memory: the keys of all tables, and some rows at a time. told: hears
    now and then how many rows are written, and may raise to stop.
    """
    nearest = tables[0]
    dtypes = {table.dtype for table in tables}
    dtype = dtypes.pop() if len(dtypes) == 1 else FLOAT16
    places = np.concatenate([np.full(len(table), at, dtype=np.uint8) for at, table in enumerate(tables)])
    rows = np.concatenate([np.arange(len(table)) for table in tables])
    # Of equal keys `unique` names the first, which is the nearest table's.
    keys, first = np.unique(np.concatenate([table.keys for table in tables]), return_index=True)
    meta = {"missing_id": nearest.missing_id, "lower_digest": nearest.about.get("lower_digest")}
    return write_rows(
        out,
        _batches(tables, keys, places[first], rows[first], dtype, told),
        meta,
        nearest.composition,
        n=nearest.n,
        dtype=dtype,
        levels=_levels(tables, keys),
    )


def _batches(
    tables: Sequence[PlotTable],
    keys: NDArray[np.int64],
    places: NDArray[np.uint8],
    rows: NDArray[np.int64],
    dtype: str,
    told: Callable[[int], None],
) -> Iterator[Rows]:
    for start in range(0, len(keys), ROWS_AT_ONCE):
        told(start)
        part = slice(start, start + ROWS_AT_ONCE)
        gathered: NDArray[np.void] | None = None
        for number, table in enumerate(tables):
            at = np.flatnonzero(places[part] == number)
            if len(at):
                found = _as_stored(table, rows[part][at], dtype)
                gathered = np.empty(len(keys[part]), dtype=found.dtype) if gathered is None else gathered
                gathered[at] = found
        assert gathered is not None
        yield keys[part], gathered


def _as_stored(table: PlotTable, at: NDArray[np.int64], dtype: str) -> NDArray[np.void]:
    if table.dtype == dtype:
        return table.rows.take(at)
    vectors = np.empty((len(at), table.n, table.hidden), dtype=np.float16)
    table.read(at, vectors)
    return stored(vectors, dtype)


def _levels(tables: Sequence[PlotTable], keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many rows are of each level. The keys of long fragments do not tell; then the sum over the tables,
    which counts a fragment of several of them as often."""
    n = tables[0].n
    if n <= N:
        of_keys = level_of(unpack(keys, n), tables[0].missing_id)
        return np.bincount(of_keys, minlength=level_count(n)).astype(np.int64)
    names = level_names(n)
    return np.array([sum(int(table.about["levels"][name]) for table in tables) for name in names])
