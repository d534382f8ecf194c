"""The measured input ranges of a root's upper layers, and the choice between float and int8 weights."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from inference.errors import HplmError
from inference.hplm.artifact_files import read_weights, write_weights
from inference.hplm.devices import has_native_bfloat16
from inference.hplm.int8_linear import InputScale
from inference.hplm.weight_format import WeightFormat

INT8_FILE = "int8.safetensors"
"""Roots of earlier conversions have none, and are served in float."""
MAX_UNEXPLAINED: Final = 0.01
"""The largest share of the last layer's variance that AUTO lets int8 leave unexplained."""
PLACES_BY_INPUT: Final = {
    "attention": ("query", "key", "value"),
    "output": ("output",),
    "expand": ("expand", "gate"),
    "contract": ("contract",),
}
"""The linear layers of a block that share an input. Few families have a gate."""


@dataclass(frozen=True, slots=True, eq=False)
class Int8Scales:
    """The least and the greatest value of each column [L, in] of the upper layers' inputs, by the names in
    PLACES_BY_INPUT, and the share of the last layer's variance that int8 leaves unexplained."""

    low: Mapping[str, Tensor]
    high: Mapping[str, Tensor]
    unexplained: float

    def of_layer(self, index: int) -> dict[str, InputScale]:
        """The scale of the input of each place of upper layer `index`."""
        scales: dict[str, InputScale] = {}
        for name, places in PLACES_BY_INPUT.items():
            scales |= dict.fromkeys(places, InputScale.of(self.low[name][index], self.high[name][index]))
        return scales

    def save(self, folder: Path) -> None:
        """Write INT8_FILE into the folder of a root."""
        parts = {"unexplained": torch.tensor([self.unexplained])}
        for name in PLACES_BY_INPUT:
            parts |= {f"{name}.low": self.low[name], f"{name}.high": self.high[name]}
        write_weights(folder / INT8_FILE, parts)

    @classmethod
    def load(cls, folder: Path, *, layers: int, hidden: int, inner: int) -> "Int8Scales | None":
        """Read what `save` wrote; None if it is not there. Raises HplmError(corrupt_artifact)."""
        if not (folder / INT8_FILE).is_file():
            return None
        parts = read_weights(folder / INT8_FILE)
        shapes: dict[str, tuple[int, ...]] = {"unexplained": (1,)}
        for name in PLACES_BY_INPUT:
            width = inner if name == "contract" else hidden
            shapes |= {f"{name}.{end}": (layers, width) for end in ("low", "high")}
        if {name: tuple(value.shape) for name, value in parts.items()} != shapes:
            raise HplmError("corrupt_artifact", f"{INT8_FILE}: the scales do not fit the upper layers")
        low, high = ({name: parts[f"{name}.{end}"] for name in PLACES_BY_INPUT} for end in ("low", "high"))
        if any(value.dtype is not torch.float32 for value in parts.values()) or not all(
            bool((low[name] <= high[name]).all()) for name in PLACES_BY_INPUT
        ):
            raise HplmError("corrupt_artifact", f"{INT8_FILE}: the scales are not ranges of float32")
        if (unexplained := float(parts["unexplained"])) < 0:
            raise HplmError("corrupt_artifact", f"{INT8_FILE}: the unexplained share is {unexplained}")
        return cls(low, high, unexplained)


def check_int8_support(device: torch.device) -> None:
    """Raises HplmError(invalid_field) where int8 weights cannot be computed in reasonable time."""
    if not supports_int8(device):
        raise HplmError("invalid_field", f"int8 weights need a CPU with AVX2; the device is {device}")


def supports_int8(device: torch.device) -> bool:
    """Whether the device has kernels for int8 weights: a CPU with AVX2."""
    return device.type == "cpu" and bool(torch.cpu.get_capabilities().get("avx2", False))


def int8_is_faster(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether int8 weights are faster than weights of `dtype` on such a device, for few rows as for many: on
    a CPU with VNNI and without native bfloat16.

    With native bfloat16 few rows took half as long in float on an AMD EPYC, and many are about as fast or,
    with AMX, faster. Without VNNI float32 is 1.3 to 1.8 times slower from 512 rows on, but up to 1.1 times
    faster at 64.
    """
    if not supports_int8(device) or dtype not in {torch.float32, torch.bfloat16}:
        return False
    found = torch.cpu.get_capabilities()
    return bool(found.get("avx512_vnni") or found.get("avx_vnni")) and not has_native_bfloat16(device)


def uses_int8(
    weights: WeightFormat, scales: Int8Scales | None, device: torch.device, dtype: torch.dtype
) -> bool:
    """Whether a root with these scales is served with int8 weights."""
    if scales is None or weights is WeightFormat.FLOAT:
        return False
    if weights is WeightFormat.INT8:
        return True
    return scales.unexplained <= MAX_UNEXPLAINED and int8_is_faster(device, dtype)
