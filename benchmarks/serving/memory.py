"""What the device holds for the root and for every model more, beside the other schemes: the paper's table 2.
Every model is opened and answers a row.

    python -m benchmarks.serving.memory
"""

import argparse
import gc
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from benchmarks import harness
from benchmarks.serving import options as shared
from benchmarks.serving.ceiling import stream
from benchmarks.serving.world import World
from inference.engine.executor import Executor
from inference.engine.pipeline import Pipeline
from inference.engine.rows import Answered

HPLMS, QUICK_HPLMS = 10_000, 500
MIB = 1024**2
POOL_BYTES = 32 * MIB
FILLED_BY = 8
"""So many batches fill the pool; what grows after them grows with the models."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print the table."""
    parser = shared.arguments(__doc__ or "")
    parser.add_argument("--hplms", type=int, help="how many are stored and served")
    return shared.run(parser, measure, argv)


def measure(options: argparse.Namespace, world: World) -> harness.Report:
    """Serve every model once."""
    hplms = options.hplms or (QUICK_HPLMS if options.quick else HPLMS)
    world.store_hplms(hplms)
    dedicated = sum(map(_bytes, (world.full, world.root.upper)))
    pipeline = Pipeline()
    executor = world.executor(pipeline, pool_bytes=POOL_BYTES)
    order, filling = np.random.default_rng(0).permutation(hplms), FILLED_BY * options.rows
    served = _serve(world, executor, order[:filling], options.rows)
    before = held(world.device)
    started = time.perf_counter()
    served += _serve(world, executor, order[filling:], options.rows)
    seconds = time.perf_counter() - started
    after = held(world.device)
    pipeline.close()
    figures = {
        "device_bytes_per_hplm": max(0.0, (after - before) / max(1, hplms - filling)),
        "hplms_held": float(served),
        "seconds": seconds,
        "loads": float(executor.pool.loads),
    }
    one = executor.pool.used_bytes / max(1, len(executor.pool))
    weights = {
        "the upper layers of the root, for all": _bytes(world.root.upper),
        "a model in the PET pool": one,
        "a further model, beyond the pool": figures["device_bytes_per_hplm"],
        "measured, with the table and the models in the pool": after,
        "dedicated, each tenant": dedicated,
        "one model for all": dedicated,
        "hBERT-adapter (computed lower layers), for all": dedicated,
        "hBERT-adapter, each tenant": one,
    }
    rows: list[harness.Row] = [{"what": name, "MiB": size / MIB} for name, size in weights.items()]
    return harness.Report("memory", {"pool_bytes": POOL_BYTES, "hplms": hplms}, rows, figures)


def _bytes(module: nn.Module) -> int:
    """Of the module's weights."""
    return sum(weight.numel() * weight.element_size() for weight in module.parameters())


def held(device: torch.device) -> int:
    """Bytes on the device; on a CPU, which is its own device, what this process has written to."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        return torch.cuda.memory_allocated(device)
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="utf-8").splitlines()
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Private_Dirty"))


def _serve(world: World, executor: Executor, hplms: NDArray[np.int64], rows: int) -> int:
    """One row of each; how many were answered."""
    parts = np.array_split(hplms, max(1, len(hplms) // rows))
    outcomes = stream(executor, map(world.rows, parts))
    return sum(isinstance(outcome, Answered) for batch in outcomes for outcome in batch)


if __name__ == "__main__":
    sys.exit(main())
