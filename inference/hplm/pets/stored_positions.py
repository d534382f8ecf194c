"""The positions of a PET's sparse entries, as they are stored: bits, or numbers, whichever is shorter."""

from collections.abc import Mapping
from typing import Final

import numpy as np
import torch
from torch import Tensor

from inference.errors import HplmError
from inference.hplm.pets.packed import PetLayout

ROWS: Final = "rows"
"""The stored tensor with the numbers of a PET: what computes is read and converted as one."""
SUFFIX: Final = ".positions"


def compressed(layout: PetLayout, positions: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """`<name>.positions` of each sparse tensor, from the positions [L, k]: uint8 [L, n / 8], with a bit for
    each of the n weights, or int32 [L, k]."""
    stored = {}
    for name, at in positions.items():
        weights = layout.sparse[name].size[0] * layout.sparse[name].size[1]
        stored[f"{name}{SUFFIX}"] = _bits(at, weights) if _has_bits(layout, name) else at.int()
    return stored


def read_sparse(layout: PetLayout, stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The rows, and by the name of each sparse tensor its positions [L, k] int32.

    Raises HplmError(corrupt_artifact) with the tensor's name for other tensors, shapes or types, and for
    positions that are too many, too few, unsorted, repeated or beyond the matrix.
    """
    expected = {ROWS: (layout.shape.layers, layout.width)}
    expected |= {f"{name}{SUFFIX}": _stored_shape(layout, name) for name in layout.sparse}
    if stored.keys() != expected.keys():
        odd = sorted(stored.keys() ^ expected.keys())[0]
        raise _corrupt(f"{odd[:60]} is missing or not expected")
    for name, shape in expected.items():
        if tuple(stored[name].shape) != shape:
            raise _corrupt(f"{name} has shape {tuple(stored[name].shape)}, not {shape}")
    if not stored[ROWS].is_floating_point():
        raise _corrupt(f"{ROWS} has type {stored[ROWS].dtype}, which is no floating-point type")
    positions = {name: _read(layout, name, stored[f"{name}{SUFFIX}"]) for name in layout.sparse}
    return {ROWS: stored[ROWS]} | positions


def _read(layout: PetLayout, name: str, stored: Tensor) -> Tensor:
    sparse = layout.sparse[name]
    weights = sparse.size[0] * sparse.size[1]
    wanted = torch.uint8 if _has_bits(layout, name) else torch.int32
    if stored.dtype != wanted:
        raise _corrupt(f"{name}{SUFFIX} has type {stored.dtype}, not {wanted}")
    if wanted is torch.int32:
        if bool((stored.diff(dim=1) <= 0).any()):
            raise _corrupt(f"{name}{SUFFIX} are not in ascending order")
        if stored.numel() and not 0 <= int(stored.min()) <= int(stored.max()) < weights:
            raise _corrupt(f"{name}{SUFFIX} are not between 0 and {weights - 1}")
        return stored
    bits = np.unpackbits(stored.numpy(), axis=1)
    if bits[:, weights:].any():
        raise _corrupt(f"{name}{SUFFIX} has bits beyond its {weights} weights")
    for layer, count in enumerate(bits.sum(axis=1, dtype=np.int64).tolist()):
        if count != sparse.count:
            raise _corrupt(f"{name}{SUFFIX} has {count} bits in layer {layer}, not {sparse.count}")
    return torch.from_numpy(np.nonzero(bits)[1].astype(np.int32)).view(layout.shape.layers, -1)


def _bits(at: Tensor, weights: int) -> Tensor:
    bits = np.zeros((len(at), weights), dtype=np.uint8)
    np.put_along_axis(bits, at.numpy().astype(np.int64), 1, axis=1)
    return torch.from_numpy(np.packbits(bits, axis=1))


def _has_bits(layout: PetLayout, name: str) -> bool:
    sparse = layout.sparse[name]
    return sparse.count * 32 > sparse.size[0] * sparse.size[1]


def _stored_shape(layout: PetLayout, name: str) -> tuple[int, int]:
    sparse = layout.sparse[name]
    is_long = _has_bits(layout, name)
    return layout.shape.layers, -(-sparse.size[0] * sparse.size[1] // 8) if is_long else sparse.count


def _corrupt(message: str) -> HplmError:
    return HplmError("corrupt_artifact", f"PET: {message}")
