"""Reading and writing tensors: safetensors only, checked, never pickled."""

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from inference.hplm.errors import HplmError


def read_weights(
    path: Path, *, missing: str = "corrupt_artifact", damaged: str = "corrupt_artifact"
) -> dict[str, Tensor]:
    """Every tensor of a safetensors file, on the CPU, in the type it is stored in.

    Raises HplmError with code `missing` when there is no such file, `damaged` when it is truncated, is no
    safetensors file or holds a number that is not finite.
    """
    if not path.is_file():
        raise HplmError(missing, f"{path.name} is missing")
    try:
        weights = load_file(path)
    except (SafetensorError, OSError, ValueError, KeyError) as error:
        raise HplmError(damaged, f"{path.name} cannot be read as safetensors: {error}") from error
    for name, value in weights.items():
        if value.is_floating_point() and not bool(torch.isfinite(value).all()):
            raise HplmError(damaged, f"{path.name}: {name} holds NaN or infinite numbers")
    return weights


def write_weights(path: Path, weights: Mapping[str, Tensor]) -> None:
    """Write `weights` as they are; views and tensors on a GPU are copied first."""
    save_file({name: value.detach().to("cpu").contiguous().clone() for name, value in weights.items()}, path)


def widen(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same weights with every floating tensor in fp32."""
    return {name: value.float() if value.is_floating_point() else value for name, value in weights.items()}
