"""Writes a PLOT from a stream of rows, and merges several tables into one."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import lmdb
import numpy as np
import torch
from numpy.typing import NDArray

from inference.errors import HplmError
from inference.hplm.artifact_files import FORMAT, write_json, write_weights
from inference.hplm.compose import Composition
from inference.hplm.fragments import DEFAULT_N, fragment_levels, level_count, level_names, pack, unpack
from inference.hplm.plot import COMPOSITION_FILE, INDEX_FILE, JSON_FILE, KEY_TYPE, VECTORS_FILE, PlotTable
from inference.hplm.quantization import FLOAT16, quantize

FragmentVectors = tuple[NDArray[np.int64], NDArray[np.floating[Any]]]
"""Fragments [k, n] and their vectors [k, n, d]."""
StoredRows = tuple[NDArray[np.int64], NDArray[np.void]]
"""Keys [k] and stored rows [k] (`row_dtype`)."""

INDEX_BYTES_PER_ROW: Final = 27
"""A pair takes 16 bytes, a header of 8 and a pointer of 2, in full pages."""
_MAP_HEADROOM = 1 << 20
# More than the file takes, to be safe.
_MAP_BYTES_PER_ROW = 64


def write_plot(
    folder: Path,
    batches: Iterable[FragmentVectors],
    extra: Mapping[str, Any],
    composition: Composition,
    *,
    n: int,
    dtype: str = FLOAT16,
) -> dict[str, Any]:
    """Write a table into `folder` and return what its plot.json says.

    batches: fragments [k, n] int64 and their vectors [k, n, d] in ascending order of the fragments' keys
    (`pack`), each batch one LMDB transaction. extra: what else plot.json contains; "missing_id" is required.
    dtype: how vectors are stored, "float16" or "int8". Raises HplmError(internal) for keys out of order, and
    HplmError(inference_failed) for vectors that are not finite.
    """
    counts = np.zeros(level_count(n), dtype=np.int64)
    missing = int(extra["missing_id"])

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

    return write_rows(folder, rows(), extra, composition, n=n, dtype=dtype, levels=counts)


def write_rows(
    folder: Path,
    batches: Iterable[StoredRows],
    extra: Mapping[str, Any],
    composition: Composition,
    *,
    n: int,
    dtype: str,
    levels: NDArray[np.int64],
) -> dict[str, Any]:
    """As `write_plot`, from keys and stored rows. ``levels``, the number of rows of each level, is read after
    the last batch."""
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    with _new_index(folder / INDEX_FILE) as index, (folder / VECTORS_FILE).open("xb") as file:
        for keys, rows in _in_order(batches):
            _append(index, keys, first=count)
            file.write(np.ascontiguousarray(rows).data)
            count += len(keys)
    write_weights(folder / COMPOSITION_FILE, composition.to("cpu", torch.float32).tensors())
    metadata = {
        **extra,
        "format": FORMAT,
        "n": n,
        "hidden": composition.hidden,
        "dtype": dtype,
        "rows": count,
        "levels": dict(zip(level_names(n), levels.tolist(), strict=True)),
        "index_bytes": (folder / INDEX_FILE).stat().st_size,
    }
    write_json(folder / JSON_FILE, metadata)
    return metadata


def _new_index(path: Path) -> lmdb.Environment:
    # No other process opens the file, and a lock file must not be part of the artifact.
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
    index.set_mapsize(_MAP_HEADROOM + _MAP_BYTES_PER_ROW * (first + len(keys)))
    packed = keys.astype(KEY_TYPE).tobytes()
    numbers = np.arange(first, first + len(keys)).astype(KEY_TYPE).tobytes()
    pairs = [(packed[at : at + 8], numbers[at : at + 8]) for at in range(0, len(packed), 8)]
    with index.begin(write=True) as transaction:
        transaction.cursor().putmulti(pairs, append=True)


MERGE_BATCH: Final = 4096


def merge_tables(
    tables: Sequence[PlotTable], out: Path, on_progress: Callable[[int], None] = lambda _: None
) -> dict[str, Any]:
    """Write one table that replaces the chain `tables` (nearest first), and return what its plot.json says.

    Of several rows of one key the nearest table's is kept. Rows keep their stored type, or become float16 if
    the tables differ in it. The composition is the nearest table's. Memory: the keys of all tables and a few
    rows. on_progress: is called with the number of rows written, and may raise to stop.
    """
    nearest = tables[0]
    dtypes = {table.dtype for table in tables}
    dtype = dtypes.pop() if len(dtypes) == 1 else FLOAT16
    table_index = np.concatenate([np.full(len(table), at, dtype=np.uint8) for at, table in enumerate(tables)])
    rows = np.concatenate([np.arange(len(table)) for table in tables])
    # Of equal keys `unique` returns the first, which is the nearest table's.
    keys, first = np.unique(np.concatenate([table.keys for table in tables]), return_index=True)
    kept: dict[str, Any] = {
        name: nearest.metadata[name] for name in ("lower_digest", "ladder") if name in nearest.metadata
    }
    return write_rows(
        out,
        _batches(tables, keys, table_index[first], rows[first], dtype, on_progress),
        {"missing_id": nearest.missing_id, **kept},
        nearest.composition,
        n=nearest.n,
        dtype=dtype,
        levels=_levels(tables, keys),
    )


def _batches(
    tables: Sequence[PlotTable],
    keys: NDArray[np.int64],
    table_index: NDArray[np.uint8],
    rows: NDArray[np.int64],
    dtype: str,
    on_progress: Callable[[int], None],
) -> Iterator[StoredRows]:
    for start in range(0, len(keys), MERGE_BATCH):
        on_progress(start)
        part = slice(start, start + MERGE_BATCH)
        gathered: NDArray[np.void] | None = None
        for number, table in enumerate(tables):
            at = np.flatnonzero(table_index[part] == number)
            if len(at):
                found = _as_stored(table, rows[part][at], dtype)
                gathered = np.empty(len(keys[part]), dtype=found.dtype) if gathered is None else gathered
                gathered[at] = found
        assert gathered is not None
        yield keys[part], gathered


def _as_stored(table: PlotTable, at: NDArray[np.int64], dtype: str) -> NDArray[np.void]:
    if table.dtype == dtype:
        table.read_ahead(at)
        return table.rows.take(at)
    vectors = np.empty((len(at), table.n, table.hidden), dtype=np.float16)
    table.read(at, vectors)
    return quantize(vectors, dtype)


def _levels(tables: Sequence[PlotTable], keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of rows of each level. For n > 3, whose keys are hashes, an upper bound: the sum over the
    tables, which counts a fragment in several tables more than once."""
    n = tables[0].n
    if n <= DEFAULT_N:
        of_keys = fragment_levels(unpack(keys, n), tables[0].missing_id)
        return np.bincount(of_keys, minlength=level_count(n)).astype(np.int64)
    names = level_names(n)
    return np.array([sum(int(table.metadata["levels"][name]) for table in tables) for name in names])
