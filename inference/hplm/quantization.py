"""Vectors of a table in 8 bits, each with a scale of its own."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from inference.hplm.errors import HplmError

FLOAT16: Final = "float16"
INT8: Final = "int8"
DTYPES: Final = (FLOAT16, INT8)
_INT8_MAX = 127


def row_dtype(dtype: str, n: int, hidden: int) -> np.dtype[np.void]:
    """How a row of n vectors lies in the file: fp16 numbers, or int8 ones and a float32 scale per vector."""
    if dtype == FLOAT16:
        return np.dtype([("values", np.float16, (n, hidden))])
    return np.dtype([("scales", "<f4", (n,)), ("values", np.int8, (n, hidden))])


def quantize(vectors: NDArray[np.floating], dtype: str) -> NDArray[np.void]:
    """Rows [k] of `row_dtype`, of vectors [k, n, d]. HplmError(inference_failed) for numbers that are not
    finite in that type."""
    count, n, hidden = vectors.shape
    rows = np.empty(count, dtype=row_dtype(dtype, n, hidden))
    if dtype == FLOAT16:
        with np.errstate(over="ignore"):
            rows["values"] = vectors.astype(np.float16)
        finite = bool(np.isfinite(rows["values"]).all())
    else:
        finite = bool(np.isfinite(vectors).all())
        vectors = np.nan_to_num(vectors, posinf=0, neginf=0)
        scales = np.abs(vectors).max(axis=-1).astype(np.float32) / _INT8_MAX
        divided = vectors / np.where(scales > 0, scales, 1)[..., None]
        rows["scales"] = scales
        rows["values"] = np.clip(np.rint(divided), -_INT8_MAX, _INT8_MAX)
    if not finite:
        raise HplmError(
            "inference_failed", "a vector is not finite in half precision; the lower layers diverged"
        )
    return rows


def read_rows(rows: NDArray[np.void], at: NDArray[np.int64], out: NDArray[np.float16]) -> None:
    """Write the vectors [k, n, d] of the stored rows `at` [k] of `rows` to `out`."""
    if "scales" in (rows.dtype.names or ()):
        some = rows.take(at)
        np.multiply(some["values"], some["scales"][..., None], out=out, casting="unsafe")
    else:
        # Straight from the mapped file to where they are wanted; with another mode NumPy would buffer them.
        np.take(rows["values"], at, axis=0, out=out, mode="clip")
