"""Writing a PLOT: a stream of rows in, one immutable folder out, in bounded memory."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import lmdb
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from inference.hplm.errors import HplmError
from inference.hplm.fragments import LEVEL_NAMES, LEVELS, N, level_of, unpack
from inference.hplm.json_files import FORMAT, write_json
from inference.hplm.plot import INDEX_FILE, JSON_FILE, KEY_TYPE, POSITION_FILE, VECTORS_FILE
from inference.hplm.weights import write_weights

Batch = tuple[NDArray[np.int64], NDArray[np.float16]]

_MAP_HEADROOM = 1 << 20
# A pair takes 8 + 8 bytes, a header of 8 and a pointer of 2 in a page that appending fills; doubled to be
# safe.
_BYTES_PER_PAIR = 64


def write_plot(
    folder: Path, batches: Iterable[Batch], meta: Mapping[str, Any], position_bias: Tensor
) -> dict[str, Any]:
    """Write a table into `folder` and return what its plot.json says.

    `batches` yields (keys [k] int64, vectors [k, 3, d] fp16); keys ascend strictly within and across
    batches, so a row's number is its key's rank. `meta` must hold "missing_id" and may hold anything else
    worth keeping ("alpha", "lower_digest"); `position_bias` is [max_tokens, d]. One batch is one LMDB
    transaction. Raises HplmError(internal) for keys out of order, and HplmError(inference_failed) for
    vectors that are not finite in fp16.
    """
    hidden = position_bias.shape[1]
    missing = int(meta["missing_id"])
    folder.mkdir(parents=True, exist_ok=True)
    counts = np.zeros(len(LEVELS), dtype=np.int64)
    with _new_index(folder / INDEX_FILE) as index, (folder / VECTORS_FILE).open("xb") as vectors:
        for keys, rows in _checked(batches, hidden):
            _append(index, vectors, keys, rows, first=int(counts.sum()))
            counts += np.bincount(level_of(unpack(keys), missing), minlength=len(LEVELS))
    write_weights(folder / POSITION_FILE, {"bias": position_bias.to(torch.float32)})
    about = {
        **meta,
        "format": FORMAT,
        "n": N,
        "hidden": hidden,
        "dtype": "float16",
        "rows": int(counts.sum()),
        "levels": dict(zip(LEVEL_NAMES, counts.tolist(), strict=True)),
        "position_bias": POSITION_FILE,
        "index_bytes": (folder / INDEX_FILE).stat().st_size,
    }
    write_json(folder / JSON_FILE, about)
    return about


def _new_index(path: Path) -> lmdb.Environment:
    # Nobody else has this file open, so no lock file is wanted beside it: the folder is an artifact.
    return lmdb.open(str(path), subdir=False, lock=False, map_size=_MAP_HEADROOM, meminit=True)


def _checked(batches: Iterable[Batch], hidden: int) -> Iterator[Batch]:
    last = -1
    for keys, rows in batches:
        if not len(keys):
            continue
        if keys[0] <= last or bool((np.diff(keys) <= 0).any()):
            raise HplmError("internal", "the keys of a table must ascend strictly")
        if rows.dtype != np.float16 or rows.shape != (len(keys), N, hidden):
            raise HplmError(
                "internal", f"rows of {rows.dtype} {rows.shape} do not fit a table of width {hidden}"
            )
        if not bool(np.isfinite(rows).all()):
            raise HplmError(
                "inference_failed", "a vector is not finite in half precision; the lower layers diverged"
            )
        last = int(keys[-1])
        yield keys, rows


def _append(
    index: lmdb.Environment,
    vectors: BinaryIO,
    keys: NDArray[np.int64],
    rows: NDArray[np.float16],
    *,
    first: int,
) -> None:
    index.set_mapsize(_MAP_HEADROOM + _BYTES_PER_PAIR * (first + len(keys)))
    packed = keys.astype(KEY_TYPE).tobytes()
    numbers = np.arange(first, first + len(keys)).astype(KEY_TYPE).tobytes()
    pairs = [(packed[at : at + 8], numbers[at : at + 8]) for at in range(0, len(packed), 8)]
    with index.begin(write=True) as writing:
        writing.cursor().putmulti(pairs, append=True)
    vectors.write(np.ascontiguousarray(rows).data)
