"""What the device holds for the root, and for every model more: the paper's table 2. Every model is
registered, opened and answers a row.

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
    options = parser.parse_args(argv)
    on = shared.machine(options)
    hplms = options.hplms or (QUICK_HPLMS if options.quick else HPLMS)
    filling = FILLED_BY * options.rows
    empty = held(on.device)
    world = shared.world(options, on)
    world.store_hplms(hplms)
    pipeline = Pipeline()
    executor = world.executor(pipeline, pool_bytes=POOL_BYTES)
    order = np.random.default_rng(0).permutation(hplms)
    served = _serve(world, executor, order[:filling], options)
    before = held(on.device)
    started = time.perf_counter()
    served += _serve(world, executor, order[filling:], options)
    seconds = time.perf_counter() - started
    after = held(on.device)
    pipeline.close()
    figures = {
        "device_bytes_per_hplm": max(0.0, (after - before) / max(1, hplms - filling)),
        "hplms_held": float(served),
    }
    one = executor.pool.used_bytes / max(1, len(executor.pool))
    rows: list[harness.Row] = [
        {"what": "the root and its table", "MiB": (before - empty) / MIB},
        {"what": "a model in the PET pool", "MiB": one / MIB},
        {
            "what": "a further model, beyond the pool",
            "MiB": figures["device_bytes_per_hplm"] / MIB,
        },
    ]
    print(harness.markdown_table(rows))
    print(f"{served} models answered in {seconds:.0f} s, {executor.pool.loads} loads")
    print(figures)
    if options.json:
        settings = {**on.told, "encoder": world.encoder.name, "pet": options.pet, "pool_bytes": POOL_BYTES}
        harness.write_json(harness.Report("memory", settings, rows, figures), options.json)
    return 0


def held(device: torch.device) -> int:
    """Bytes on the device; on a CPU, which is its own device, what this process has written to."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        return torch.cuda.memory_allocated(device)
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="utf-8").splitlines()
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Private_Dirty"))


def _serve(world: World, executor: Executor, hplms: NDArray[np.int64], options: argparse.Namespace) -> int:
    """One row of each; how many were answered."""
    parts = np.array_split(hplms, max(1, len(hplms) // options.rows))
    outcomes = stream(executor, (world.rows(part, options.tokens) for part in parts))
    return sum(isinstance(outcome, Answered) for batch in outcomes for outcome in batch)


if __name__ == "__main__":
    sys.exit(main())
