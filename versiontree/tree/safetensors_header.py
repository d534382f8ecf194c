"""Reads the header of a safetensors file, which is JSON: names, number formats and shapes of its tensors."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Final

MAX_HEADER_BYTES: Final = 100 * 1024**2
"""As the safetensors library allows."""
_LENGTH_BYTES: Final = 8
_METADATA: Final = "__metadata__"


class SafetensorsHeaderError(ValueError):
    """What is wrong with a file, as the end of a sentence that begins with its name."""


@dataclass(frozen=True, slots=True)
class TensorHeader:
    """The number format (F32, BF16, I64 …) and the shape of a tensor."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        """The number of its values."""
        return prod(self.shape)

    @property
    def is_matrix(self) -> bool:
        """Whether it has two dimensions or more."""
        return len(self.shape) > 1


def safetensors_header(path: Path) -> dict[str, TensorHeader]:
    """The tensors of a file by name, without their values. Raises SafetensorsHeaderError."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        if size < _LENGTH_BYTES or length > min(MAX_HEADER_BYTES, size - _LENGTH_BYTES):
            raise SafetensorsHeaderError("is no safetensors file, or is cut off.")
        try:
            raw = json.loads(file.read(length))
        except (ValueError, RecursionError) as error:
            raise SafetensorsHeaderError("is no safetensors file: its header is not JSON.") from error
    if not isinstance(raw, dict):
        raise SafetensorsHeaderError("is no safetensors file: its header is no object.")
    entries = {name: entry for name, entry in raw.items() if name != _METADATA}
    found = {name: _tensor(name, entry) for name, entry in entries.items()}
    end = max((entry["data_offsets"][1] for entry in entries.values()), default=0)
    if (present := size - _LENGTH_BYTES - length) != end:
        raise SafetensorsHeaderError(f"has {present:,} bytes of tensors, but its header says {end:,}.")
    return found


def _tensor(name: str, entry: Any) -> TensorHeader:
    valid = (
        isinstance(entry, Mapping)
        and isinstance(entry.get("dtype"), str)
        and _are_sizes(entry.get("shape"))
        and _are_sizes(entry.get("data_offsets"))
        and len(entry["data_offsets"]) == 2
    )
    if not valid:
        raise SafetensorsHeaderError(f"is damaged: its header does not describe {name[:100]}.")
    return TensorHeader(entry["dtype"], tuple(entry["shape"]))


def _are_sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(number) is int and number >= 0 for number in value)
