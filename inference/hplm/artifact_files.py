"""Reads and writes the files of artifacts: JSON and safetensors, validated, never pickled."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import init
from torch.overrides import TorchFunctionMode

from inference.errors import HplmError

FORMAT = 2


def read_json(
    path: Path, *, missing: str = "corrupt_artifact", damaged: str = "corrupt_artifact"
) -> dict[str, Any]:
    """The JSON object in a file. Raises HplmError with code `missing` or `damaged`."""
    value = read_json_value(path, missing=missing, damaged=damaged)
    if not isinstance(value, dict):
        raise HplmError(damaged, f"{path.name} is not a JSON object")
    return value


def read_json_value(path: Path, *, missing: str, damaged: str) -> object:
    """The JSON value in a file. Raises as `read_json`."""
    if not path.is_file():
        raise HplmError(missing, f"{path.name} is missing")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError) as error:  # thousands of nested brackets recurse too deep
        raise HplmError(damaged, f"{path.name} is not JSON: {error}") from error


def read_artifact_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file of an artifact. Raises HplmError(corrupt_artifact) for another FORMAT."""
    value = read_json(path)
    if value.get("format") != FORMAT:
        raise HplmError("corrupt_artifact", f"{path.name}: format {value.get('format')!r} is not {FORMAT}")
    return value


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write `value` with sorted keys, so that equal content has equal bytes."""
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")


Module = TypeVar("Module", bound=nn.Module)
SUPPORTED_DTYPES: Final = frozenset(
    {torch.float64, torch.float32, torch.float16, torch.bfloat16}
    | {torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool}
)
"""Other dtypes, such as 8-bit floats, cannot be checked for numbers that are not finite."""


def read_weights(
    path: Path, *, missing: str = "corrupt_artifact", damaged: str = "corrupt_artifact"
) -> dict[str, Tensor]:
    """The tensors of a safetensors file, on the CPU, in their stored dtypes.

    Raises HplmError with code `missing`, or `damaged` for a file that is truncated or not safetensors, and
    for tensors that are not of `SUPPORTED_DTYPES` or not finite.
    """
    if not path.is_file():
        raise HplmError(missing, f"{path.name} is missing")
    try:
        # The default backend, a mapped file, leaks a few objects for each tensor (safetensors 0.8).
        weights = load_file(path, backend="pread")
    except (SafetensorError, OSError, ValueError, KeyError) as error:
        raise HplmError(damaged, f"{path.name} cannot be read as safetensors: {error}") from error
    for name, value in weights.items():
        if value.dtype not in SUPPORTED_DTYPES:
            raise HplmError(damaged, f"{path.name}: {name} is stored as {value.dtype}")
        if value.is_floating_point() and value.numel() and not is_finite(value):
            raise HplmError(damaged, f"{path.name}: {name} holds NaN or infinite numbers")
    return weights


def is_finite(value: Tensor) -> bool:
    """Whether a tensor with at least one number holds neither NaN nor infinite ones."""
    # NaN propagates to both. torch.isfinite of all takes twelve times as long for fp16 on a CPU.
    return all(math.isfinite(extreme.item()) for extreme in value.aminmax())


def write_weights(path: Path, weights: Mapping[str, Tensor]) -> None:
    """Write `weights` in their dtypes. They may be views or on a GPU."""
    save_file({name: value.detach().to("cpu").contiguous().clone() for name, value in weights.items()}, path)


def to_float32(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights with floating-point tensors in float32."""
    return {name: value.float() if value.is_floating_point() else value for name, value in weights.items()}


def build_from(
    build: Callable[[], Module], weights: Mapping[str, Tensor], source: str, code: str = "corrupt_artifact"
) -> Module:
    """The module that `build` returns, on the CPU, with `weights`, and without initializing them first: that
    would take as long as reading the file.

    Raises as `load_weights`, before it takes memory: sizes that are not those of the weights may be beyond
    the machine's.
    """
    with torch.device("meta"), _WithoutInitialization():
        module = build()
    load_weights(module, {name: value.to("meta") for name, value in weights.items()}, source, code)
    module.to_empty(device="cpu")
    load_weights(module, weights, source, code)
    return module


class _WithoutInitialization(TorchFunctionMode):
    """Leaves out `torch.nn.init`: on the meta device its first call imports PyTorch's reference operators,
    which takes longer than all else of loading a root."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = dict(kwargs or {})
        if getattr(func, "__module__", "") == init.__name__:
            return args[0] if args else given["tensor"]
        return func(*args, **given)


def load_weights(
    module: nn.Module, weights: Mapping[str, Tensor], source: str, code: str = "corrupt_artifact"
) -> None:
    """Load `weights` into `module`.

    Raises HplmError with `code`, naming `source`, if a name or shape does not match.
    """
    try:
        module.load_state_dict(weights, strict=True)
    except RuntimeError as error:
        lines = [line.strip() for line in str(error).splitlines()[1:3]]
        raise HplmError(code, f"{source}: weights do not fit: {' '.join(lines)[:500]}") from error


def freeze(module: nn.Module) -> None:
    """Turn off gradients and dropout."""
    module.requires_grad_(False)
    module.eval()


def select_prefix(weights: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The weights whose names start with `prefix`, with the prefix removed."""
    return {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}


def select_layers(weights: Mapping[str, Tensor], first: int, end: int) -> dict[str, Tensor]:
    """The weights of layers `first` to `end` (exclusive), renumbered from 0."""
    return {
        f"layers.{index - first}.{name}": value
        for index in range(first, end)
        for name, value in select_prefix(weights, f"layers.{index}.").items()
    }
