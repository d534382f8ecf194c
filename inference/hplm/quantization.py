"""Quantization of table vectors: float16, or int8 with a scale for each vector."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from inference.errors import HplmError

FLOAT16: Final = "float16"
INT8: Final = "int8"
DTYPES: Final = (FLOAT16, INT8)
_INT8_MAX = 127


def row_dtype(dtype: str, n: int, hidden: int) -> np.dtype[np.void]:
    """The NumPy dtype of a stored row of n vectors: float16, or int8 with a float32 scale for each vector."""
    if dtype == FLOAT16:
        return np.dtype([("values", np.float16, (n, hidden))])
    return np.dtype([("scales", "<f4", (n,)), ("values", np.int8, (n, hidden))])


def quantize(vectors: NDArray[np.floating], dtype: str) -> NDArray[np.void]:
    """Rows [k] of `row_dtype`, from vectors [k, n, d]. Raises HplmError(inference_failed) if a number is not
    finite in ``dtype``."""
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
    """Dequantize the vectors of the rows ``at`` [k] int64 of ``rows`` [R] into ``out`` [k, n, d] float16."""
    if "scales" in (rows.dtype.names or ()):
        taken = rows.take(at)
        np.multiply(taken["values"], taken["scales"][..., None], out=out, casting="unsafe")
    else:
        # With another mode NumPy would buffer the rows instead of copying them straight to ``out``.
        np.take(rows["values"], at, axis=0, out=out, mode="clip")
