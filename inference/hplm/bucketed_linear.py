"""Products of many tokens with shared weights, in shapes that come again.

On a CPU PyTorch compiles a kernel for each number of rows that it meets in half precision, which takes some 5
ms of a core, several times what the product of a short text does, and keeps a thousand of them, some MB each.
Batches of texts hardly ever have the same number of tokens twice, so where nothing is learnt their products
are taken in pieces.
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


def linear(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """[..., in] to [..., out], as `functional.linear`."""
    if not _needs_buckets(hidden):
        return functional.linear(hidden, weight, bias)
    rows = hidden.reshape(-1, hidden.shape[-1])
    return addmm(bias, rows, weight.t()).view(*hidden.shape[:-1], len(weight))


def addmm(to: Tensor, rows: Tensor, weight: Tensor) -> Tensor:
    """``to`` [N, out] or [out] plus the product of rows [N, in] with a weight [in, out], as `torch.addmm`."""
    if not _needs_buckets(rows):
        return torch.addmm(to, rows, weight)
    found = rows.new_empty(len(rows), weight.shape[1])
    for piece in bucket_slices(len(rows)):
        torch.addmm(to if to.dim() == 1 else to[piece], rows[piece], weight, out=found[piece])
    return found


def bucket_slices(rows: int) -> Iterator[slice]:
    """What covers so many rows, in few sizes: multiples of COARSE, LARGEST at most, then a multiple of FINE
    that covers the rest and goes back over rows that are done. Fewer rows than FINE are one piece."""
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


def bucket_size(rows: int) -> int:
    """So many rows or a few more: one of few numbers."""
    step = SMALL_BUCKET if rows <= 8 * SMALL_BUCKET else COARSE_BUCKET
    return -(-rows // step) * step


def _needs_buckets(rows: Tensor) -> bool:
    """Whether it would be, and whether the pieces would be the same: where types are cast on the way, they
    would not."""
    if rows.dtype == torch.float32 or rows.device.type != "cpu":
        return False
    return not (torch.is_grad_enabled() or torch.is_autocast_enabled("cpu"))
