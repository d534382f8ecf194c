"""Linear layers in buckets: low-precision matmuls on a CPU are split into a few sizes.

PyTorch compiles a CPU kernel for each number of rows in half precision. That takes about 5 ms, several times
the matmul of a short text, and up to 1000 kernels of some MB stay in memory. Batches rarely have the same
number of tokens twice, so inference splits their rows into buckets.
"""

from collections.abc import Iterator
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

MAX_BUCKET: Final = 4096
COARSE_BUCKET: Final = 256
FINE_BUCKET: Final = 64
SMALL_BUCKET: Final = 32


def linear(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Outputs [..., out] of hidden [..., in], weight [out, in] and bias [out], as `functional.linear`."""
    if not _needs_buckets(hidden):
        return functional.linear(hidden, weight, bias)
    rows = hidden.reshape(-1, hidden.shape[-1])
    return addmm(bias, rows, weight.t()).view(*hidden.shape[:-1], len(weight))


def addmm(bias: Tensor | None, rows: Tensor, weight: Tensor) -> Tensor:
    """``bias`` [N, out] or [out] (None: nothing) plus rows [N, in] @ weight [in, out], as `torch.addmm`."""
    if not _needs_buckets(rows):
        return rows @ weight if bias is None else torch.addmm(bias, rows, weight)
    result = rows.new_empty(len(rows), weight.shape[1])
    for piece in bucket_slices(len(rows)):
        if bias is None:
            torch.mm(rows[piece], weight, out=result[piece])
        else:
            torch.addmm(bias if bias.dim() == 1 else bias[piece], rows[piece], weight, out=result[piece])
    return result


def padded_linear(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """As `linear`, of rows [n, in] whose number differs by model: if they are few, their number is rounded up
    to a multiple of SMALL_BUCKET where that saves a kernel."""
    missing = -len(hidden) % SMALL_BUCKET
    if not missing or len(hidden) >= FINE_BUCKET or hidden.dim() > 2 or not _needs_buckets(hidden):
        return linear(hidden, weight, bias)
    return linear(functional.pad(hidden, (0, 0, 0, missing)), weight, bias)[: len(hidden)]


def add_product(to: Tensor, rows: Tensor, weight: Tensor) -> Tensor:
    """Adds rows [n, in] @ weight.T of a weight [out, in] to ``to`` [n, out] in place, and returns it."""
    if _needs_buckets(rows):
        return to.add_(padded_linear(rows, weight, None))
    return to.addmm_(rows, weight.t())


def bucket_slices(rows: int) -> Iterator[slice]:
    """Slices of few sizes that cover `rows` rows: multiples of COARSE_BUCKET up to MAX_BUCKET, then one of
    FINE_BUCKET for the rest, which may overlap rows before it. Fewer rows than FINE_BUCKET are one slice."""
    begin = 0
    while rows - begin >= COARSE_BUCKET:
        size = min(MAX_BUCKET, (rows - begin) // COARSE_BUCKET * COARSE_BUCKET)
        yield slice(begin, begin + size)
        begin += size
    if FINE_BUCKET < rows < COARSE_BUCKET:
        begin = rows // FINE_BUCKET * FINE_BUCKET
        yield slice(0, begin)
    if begin < rows:
        yield slice(max(0, rows - -(-(rows - begin) // FINE_BUCKET) * FINE_BUCKET), rows)


def _needs_buckets(rows: Tensor) -> bool:
    """Whether kernels are compiled by size, and nothing needs gradients or casts."""
    if rows.dtype == torch.float32 or rows.device.type != "cpu":
        return False
    return not (torch.is_grad_enabled() or torch.is_autocast_enabled("cpu"))
