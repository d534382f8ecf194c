"""Products whose rows do not depend on their company: on a CPU the number of rows is a multiple of four.

Matrix libraries choose a kernel by the number of rows that a thread gets, and kernels for fewer than four
rows add up in another order. In float32 the rows of a product have the same bits in any company if their
number is a multiple of four, and the width of the inputs a multiple of 16, as it is in usual models.

On Intel's processors MKL has such kernels for up to twelve rows. Its strict mode of reproducible results adds
up in one order for any number; from 16 rows on that takes no longer.
"""

import os
from pathlib import Path
from typing import Final

from torch import Tensor
from torch.nn import functional

from inference.hplm import bucketed_linear

ROW_MULTIPLE: Final = 4
CPU_INFO = Path("/proc/cpuinfo")

# MKL reads it at the first product of a process. On AMD's processors the multiple of four is enough.
if CPU_INFO.is_file() and "GenuineIntel" in CPU_INFO.read_text(encoding="utf-8"):
    os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")


def linear(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Outputs [T, out] of inputs [T, in], weight [out, in] and bias [out], as `functional.linear`."""
    rows = len(inputs)
    missing = -rows % ROW_MULTIPLE
    if missing == 0 or inputs.device.type != "cpu":
        return bucketed_linear.linear(inputs, weight, bias)
    return bucketed_linear.linear(functional.pad(inputs, (0, 0, 0, missing)), weight, bias)[:rows]
