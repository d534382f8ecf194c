"""Writing a PLOT: a stream of rows in, one immutable folder out, in bounded memory."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import torch
from numpy.typing import NDArray

from inference.hplm.compose import Composition
from inference.hplm.errors import HplmError
from inference.hplm.fragments import level_count, level_names, level_of, pack
from inference.hplm.json_files import FORMAT, write_json
from inference.hplm.plot import COMPOSITION_FILE, INDEX_FILE, JSON_FILE, KEY_TYPE, VECTORS_FILE
from inference.hplm.quantise import FLOAT16, stored
from inference.hplm.weights import write_weights

Batch = tuple[NDArray[np.int64], NDArray[np.floating[Any]]]
"""Fragments [k, n] and their vectors [k, n, d]."""
Rows = tuple[NDArray[np.int64], NDArray[np.void]]
"""Keys [k] and the rows [k] as they are stored (`row_type`)."""

_MAP_HEADROOM = 1 << 20
# A pair takes 8 + 8 bytes, a header of 8 and a pointer of 2 in a page that appending fills; doubled to be
# safe.
_BYTES_PER_PAIR = 64


def write_plot(
    folder: Path,
    batches: Iterable[Batch],
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

    def rows() -> Iterator[Rows]:
        for fragments, vectors in batches:
            if not len(fragments):
                continue
            if fragments.shape[1] != n or vectors.shape != (len(fragments), n, composition.hidden):
                raise HplmError(
                    "internal",
                    f"vectors {vectors.shape} do not fit a table of {n}-grams of width {composition.hidden}",
                )
            counts[:] += np.bincount(level_of(fragments, missing), minlength=len(counts))
            yield pack(fragments), stored(vectors, dtype)

    return write_rows(folder, rows(), meta, composition, n=n, dtype=dtype, levels=counts)


def write_rows(
    folder: Path,
    batches: Iterable[Rows],
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


def _in_order(batches: Iterable[Rows]) -> Iterator[Rows]:
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
