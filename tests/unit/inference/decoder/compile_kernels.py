"""Compiles the Triton kernels that a step with LoRAs launches, for GPUs that need not be there.

    python -m tests.unit.inference.decoder.compile_kernels 75 90

prints each kernel with its dtype and the target of its machine code, as JSON. It needs a process of its own,
without TRITON_INTERPRET.
"""

import json
import sys
from functools import partial
from itertools import product
from types import SimpleNamespace
from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

from inference.decoder.sgmv.segments import Segments
from inference.decoder.sgmv.triton_sgmv import TritonSgmv
from tests.unit.inference.decoder.loras import SmallDecoder, full_lora, random_states

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
SHAPE = SmallDecoder(layers=1, hidden=576, keys=192)


def main(*capabilities: int) -> None:
    """Launch a step's kernels; instead of a launch, each is compiled for these compute capabilities."""
    compiled: list[tuple[str, str, str]] = []

    def compile_kernel(kernel: Any, grid: tuple[int, ...], *args: Any, **constants: Any) -> None:
        code = kernel.warmup(*args, grid=grid, **constants).asm
        assert code["cubin"], "no machine code"
        [line] = [line for line in code["ptx"].splitlines() if line.startswith(".target")]
        compiled.append((kernel.__name__, str(args[0].dtype), line.split()[1].rstrip(",")))

    JITFunction.__getitem__ = lambda kernel, grid: partial(compile_kernel, kernel, grid)
    for capability, dtype in product(capabilities, DTYPES):
        driver.set_active(
            SimpleNamespace(
                get_current_target=partial(GPUTarget, "cuda", capability, 32),
                get_current_device=lambda capability=capability: capability,
                get_current_stream=lambda device: 0,
            )
        )
        sgmv = TritonSgmv(Segments.of([(full_lora(SHAPE, rank, dtype=dtype), 2) for rank in (8, 64)]))
        for projection in ("query", "adapter"):
            sgmv(0, projection, *random_states(SHAPE, projection, 4, dtype=dtype))
    sys.stdout.write(json.dumps(compiled))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
