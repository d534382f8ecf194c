"""Reading and writing tensors: safetensors only, checked, never pickled."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from inference.hplm.errors import HplmError

Module = TypeVar("Module", bound=nn.Module)
TYPES: Final = frozenset(
    {torch.float64, torch.float32, torch.float16, torch.bfloat16}
    | {torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool}
)
"""Of other ones, such as floats of eight bits, PyTorch cannot even say whether they are finite."""


def read_weights(
    path: Path, *, missing: str = "corrupt_artifact", damaged: str = "corrupt_artifact"
) -> dict[str, Tensor]:
    """Every tensor of a safetensors file, on the CPU, in the type it is stored in.

    Raises HplmError with code `missing` when there is no such file, `damaged` when it is truncated, is no
    safetensors file, has tensors of other `TYPES` or holds a number that is not finite.
    """
    if not path.is_file():
        raise HplmError(missing, f"{path.name} is missing")
    try:
        # Its default, a mapped file, keeps a few objects of every tensor for ever (safetensors 0.8), and a
        # worker reads hPLMs for months.
        weights = load_file(path, backend="pread")
    except (SafetensorError, OSError, ValueError, KeyError) as error:
        raise HplmError(damaged, f"{path.name} cannot be read as safetensors: {error}") from error
    for name, value in weights.items():
        if value.dtype not in TYPES:
            raise HplmError(damaged, f"{path.name}: {name} is stored as {value.dtype}")
        if value.is_floating_point() and not bool(torch.isfinite(value).all()):
            raise HplmError(damaged, f"{path.name}: {name} holds NaN or infinite numbers")
    return weights


def write_weights(path: Path, weights: Mapping[str, Tensor]) -> None:
    """Write `weights` as they are; views and tensors on a GPU are copied first."""
    save_file({name: value.detach().to("cpu").contiguous().clone() for name, value in weights.items()}, path)


def widen(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same weights with every floating tensor in fp32."""
    return {name: value.float() if value.is_floating_point() else value for name, value in weights.items()}


def unfilled(build: Callable[[], Module]) -> Module:
    """The module that `build` gives, on the CPU, with any numbers for weights: `fill` it. To initialise what
    is overwritten would take as long as reading the file."""
    with torch.device("meta"):
        module = build()
    return module.to_empty(device="cpu")


def fill(
    module: nn.Module, weights: Mapping[str, Tensor], source: str, code: str = "corrupt_artifact"
) -> None:
    """Give `module` these weights, every name and shape matching.

    Raises HplmError with `code`, naming `source` and what does not fit.
    """
    try:
        module.load_state_dict(weights, strict=True)
    except RuntimeError as error:
        lines = [line.strip() for line in str(error).splitlines()[1:3]]
        raise HplmError(code, f"{source}: weights do not fit: {' '.join(lines)[:500]}") from error


def freeze(module: nn.Module) -> None:
    """No gradients, no dropout."""
    module.requires_grad_(False)
    module.eval()


def select(weights: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The weights whose names begin with `prefix`, without it."""
    return {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}


def numbered(weights: Mapping[str, Tensor], first: int, end: int) -> dict[str, Tensor]:
    """The weights of layers `first` to `end` (exclusive), counted from 0."""
    return {
        f"layers.{index - first}.{name}": value
        for index in range(first, end)
        for name, value in select(weights, f"layers.{index}.").items()
    }
