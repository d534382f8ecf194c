"""Linear layers with int8 weights for CPUs. The scales of their inputs are constants.

An input is rounded to 256 steps of a range that conversion measured, never of the batch: a row's result does
not depend on its neighbours. Products are summed exactly, in int32. Outputs are float.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from inference.hplm.bucketed_linear import linear
from inference.hplm.devices import has_native_bfloat16

# PyTorch deprecates its quantized tensors. Without them this step takes four times as long. A first call here
# that swallowed the warning would start OpenMP, and training jobs that fork afterwards would wait for ever.
warnings.filterwarnings("ignore", "torch.quantize_per_tensor", UserWarning)

WEIGHT_MAX: Final = 64
"""A CPU without VNNI adds two products in int16, which holds 2 * 255 * 64, but not 2 * 255 * 127."""
HEADROOM: Final = 2.0
"""The range of an input is so many times the range that was measured, because PETs change it."""
COLUMN_EXPONENT: Final = 0.75
"""How far the step of a column follows the range of the column: 0: not at all; 1: in proportion.

A few columns of a BERT's hidden states are ten times larger than the others. Measured on MiniLM-L6: 0 leaves
3% of the last layer's variance unexplained, 0.75 0.6%, 1 0.8%.
"""
SMALLEST_RANGE: Final = 1e-4
"""Of a column, as a share of the widest column's."""
MIN_ROWS: Final = 32


@dataclass(frozen=True, eq=False)
class InputScale:
    """How an input [..., in] becomes 8-bit integers: one step is `steps` [in], and `zero_point` stands for
    0."""

    steps: Tensor
    zero_point: int

    @classmethod
    def of(cls, low: Tensor, high: Tensor) -> "InputScale":
        """Of the least and greatest values [in] that were measured for each column."""
        widest = torch.maximum(high, -low).clamp_min(0)
        widest = widest.clamp_min(max(float(widest.max()) * SMALLEST_RANGE, torch.finfo(torch.float32).tiny))
        relative = widest**COLUMN_EXPONENT
        lowest, highest = float((low / relative).min()), float((high / relative).max())
        lowest, highest = min(lowest, 0.0) * HEADROOM, max(highest, 0.0) * HEADROOM
        step = (highest - lowest) / 255 or 1.0
        return cls(relative * step, round(-lowest / step))

    @cached_property
    def _factors(self) -> Tensor:
        return 1 / self.steps

    def quantize(self, rows: Tensor) -> Tensor:
        """Integers [padded, in] uint8 of rows [N, in]; `padded` is `padded_rows(N)`."""
        scaled = torch.mul(rows, self._factors)
        quantized = torch.quantize_per_tensor(scaled, 1.0, self.zero_point, torch.quint8)
        # int_repr() copies, which takes longer than all of the above.
        integers = torch.empty(0, dtype=torch.uint8)
        integers.set_(quantized.untyped_storage(), 0, quantized.shape, quantized.stride())
        missing = padded_rows(len(rows)) - len(rows)
        return functional.pad(integers, (0, 0, 0, missing)) if missing else integers


def padded_rows(rows: int) -> int:
    """So many rows or up to an eighth more, at least MIN_ROWS.

    oneDNN compiles a kernel for each number of rows and keeps up to 1,024 of them: padding leaves few.
    """
    step = max(MIN_ROWS, 1 << max(0, (rows - 1).bit_length() - 4))
    return max(1, -(-rows // step)) * step


class Int8Linear(nn.Module):
    """Takes the place of an `nn.Linear` whose weights are final. Each output has a scale of its own."""

    def __init__(self, source: nn.Linear, scale: InputScale) -> None:
        super().__init__()
        weight = source.weight.detach().float() * scale.steps
        self.input_scale = scale
        self.out_features = source.out_features
        self._scales = weight.abs().amax(1).clamp_min(torch.finfo(torch.float32).tiny) / WEIGHT_MAX
        self._zero_points = torch.zeros(source.out_features, dtype=torch.int64)
        self._bias = source.bias.detach().float()
        integers = (weight / self._scales[:, None]).round().to(torch.int8)
        self._packed = torch.ops.onednn.qlinear_prepack(integers, [MIN_ROWS, source.in_features])
        # Without native bfloat16 oneDNN takes 2,000 times as long to write bfloat16.
        direct = source.weight.dtype is torch.bfloat16 and has_native_bfloat16(torch.device("cpu"))
        self._computed = torch.bfloat16 if direct else torch.float32

    def forward(self, hidden: Tensor) -> Tensor:
        """Outputs [..., out] of hidden [..., in], in its dtype."""
        return linears([self], hidden)[0]

    def product(self, integers: Tensor) -> Tensor:
        """Outputs [N, out] of an input [N, in] uint8 that is quantized already; see `InputScale`."""
        result: Tensor = torch.ops.onednn.qlinear_pointwise(
            integers, 1.0, self.input_scale.zero_point, self._packed, self._scales, self._zero_points,
            self._bias, 1.0, 0, self._computed, "none", [], "",
        )  # fmt: skip
        return result


Linear = nn.Linear | Int8Linear


def linears(modules: Sequence[Linear], hidden: Tensor) -> list[Tensor]:
    """The outputs [..., out] of linear layers with one input [..., in]: all are float, or all are int8 with
    the same `InputScale`, and the input is quantized once."""
    first = modules[0]
    if not isinstance(first, Int8Linear):
        floats = cast("Sequence[nn.Linear]", modules)
        return [linear(hidden, module.weight, module.bias) for module in floats]
    rows = hidden.reshape(-1, hidden.shape[-1])
    integers = first.input_scale.quantize(rows)
    # An overflow, of a PET for instance, would become some integer: it has to be seen in the outputs.
    overflow = None if math.isfinite(rows.sum()) else rows.sum(-1, keepdim=True) * 0
    results = []
    for module in modules:
        assert isinstance(module, Int8Linear)
        assert module.input_scale is first.input_scale
        outputs = module.product(integers)[: len(rows)].to(hidden.dtype)
        if overflow is not None:
            outputs = outputs + overflow
        results.append(outputs.view(*hidden.shape[:-1], module.out_features))
    return results
