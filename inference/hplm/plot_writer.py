"""Writing a PLOT: a stream of rows in, one immutable folder out; and merging several tables into one."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import lmdb
import numpy as np
import torch
from numpy.typing import NDArray

from inference.hplm.artifact_files import FORMAT, write_json, write_weights
from inference.hplm.compose import Composition
from inference.hplm.errors import HplmError
from inference.hplm.fragments import DEFAULT_N, fragment_levels, level_count, level_names, pack, unpack
from inference.hplm.plot import COMPOSITION_FILE, INDEX_FILE, JSON_FILE, KEY_TYPE, VECTORS_FILE, PlotTable
from inference.hplm.quantization import FLOAT16, quantize

FragmentVectors = tuple[NDArray[np.int64], NDArray[np.floating[Any]]]
"""Fragments [k, n] and their vectors [k, n, d]."""
StoredRows = tuple[NDArray[np.int64], NDArray[np.void]]
"""Keys [k] and the rows [k] as they are stored (`row_type`)."""

_MAP_HEADROOM = 1 << 20
# A pair takes 8 + 8 bytes, a header of 8 and a pointer of 2 in a page that appending fills; doubled to be
# safe.
_BYTES_PER_PAIR = 64


def write_plot(
    folder: Path,
    batches: Iterable[FragmentVectors],
    meta: Mapping[str, Any],
    composition: Composition,
    *,
    n: int,
    dtype: str = FLOAT16,
) -> dict[str, Any]:
    """Write a table into `folder` and return what its plot.json says.

    `batches` yields fragments and their vectors, in the order of the fragments' keys (`pack`), so a row's
    number is its key's rank; vectors are stored in `dtype`, "float16" or "int8". `meta` must hold
    "missing_id" and may hold anything else worth keeping ("alpha", "lower_digest"). One batch is one LMDB
    transaction. Raises HplmError(internal) for keys out of order, and HplmError(inference_failed) for
    vectors that are not finite.
    """
    counts = np.zeros(level_count(n), dtype=np.int64)
    missing = int(meta["missing_id"])

    def rows() -> Iterator[StoredRows]:
        for fragments, vectors in batches:
            if not len(fragments):
                continue
            if fragments.shape[1] != n or vectors.shape != (len(fragments), n, composition.hidden):
                raise HplmError(
                    "internal",
                    f"vectors {vectors.shape} do not fit a table of {n}-grams of width {composition.hidden}",
                )
            counts[:] += np.bincount(fragment_levels(fragments, missing), minlength=len(counts))
            yield pack(fragments), quantize(vectors, dtype)

    return write_rows(folder, rows(), meta, composition, n=n, dtype=dtype, levels=counts)


def write_rows(
    folder: Path,
    batches: Iterable[StoredRows],
    meta: Mapping[str, Any],
    composition: Composition,
    *,
    n: int,
    dtype: str,
    levels: NDArray[np.int64],
) -> dict[str, Any]:
    """As `write_plot`, of keys and rows as they are stored; `levels`, how many rows are of each level, is
    read after the last batch."""
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    with _new_index(folder / INDEX_FILE) as index, (folder / VECTORS_FILE).open("xb") as file:
        for keys, rows in _in_order(batches):
            _append(index, keys, first=count)
            file.write(np.ascontiguousarray(rows).data)
            count += len(keys)
    write_weights(folder / COMPOSITION_FILE, composition.to("cpu", torch.float32).tensors())
    about = {
        **meta,
        "format": FORMAT,
        "n": n,
        "hidden": composition.hidden,
        "dtype": dtype,
        "rows": count,
        "levels": dict(zip(level_names(n), levels.tolist(), strict=True)),
        "index_bytes": (folder / INDEX_FILE).stat().st_size,
    }
    write_json(folder / JSON_FILE, about)
    return about


def _new_index(path: Path) -> lmdb.Environment:
    # Nobody else has this file open, so no lock file is wanted beside it: the folder is an artifact.
    return lmdb.open(str(path), subdir=False, lock=False, map_size=_MAP_HEADROOM, meminit=True)


def _in_order(batches: Iterable[StoredRows]) -> Iterator[StoredRows]:
    last = -1
    for keys, rows in batches:
        if not len(keys):
            continue
        if keys[0] <= last or bool((np.diff(keys) <= 0).any()):
            raise HplmError("internal", "the keys of a table must ascend strictly")
        last = int(keys[-1])
        yield keys, rows


def _append(index: lmdb.Environment, keys: NDArray[np.int64], *, first: int) -> None:
    index.set_mapsize(_MAP_HEADROOM + _BYTES_PER_PAIR * (first + len(keys)))
    packed = keys.astype(KEY_TYPE).tobytes()
    numbers = np.arange(first, first + len(keys)).astype(KEY_TYPE).tobytes()
    pairs = [(packed[at : at + 8], numbers[at : at + 8]) for at in range(0, len(packed), 8)]
    with index.begin(write=True) as writing:
        writing.cursor().putmulti(pairs, append=True)


MERGE_BATCH: Final = 4096


def merge_tables(
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
) -> Iterator[StoredRows]:
    for start in range(0, len(keys), MERGE_BATCH):
        told(start)
        part = slice(start, start + MERGE_BATCH)
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
    return quantize(vectors, dtype)


def _levels(tables: Sequence[PlotTable], keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many rows are of each level. The keys of long fragments do not tell; then the sum over the tables,
    which counts a fragment of several of them as often."""
    n = tables[0].n
    if n <= DEFAULT_N:
        of_keys = fragment_levels(unpack(keys, n), tables[0].missing_id)
        return np.bincount(of_keys, minlength=level_count(n)).astype(np.int64)
    names = level_names(n)
    return np.array([sum(int(table.about["levels"][name]) for table in tables) for name in names])
