"""How much of the bare upper layers' throughput the engine keeps: retrieval, adapters, heads and pipeline on
one side, nothing but the layers on the other, on batches of the same shape. ``--http`` adds what is left of
the engine's over HTTP (`benchmarks.serving.http_share`), for which all that the product needs must be there.

    python -m benchmarks.serving.ceiling
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import numpy as np
import torch

from benchmarks import harness
from benchmarks.serving import options as shared
from benchmarks.serving.timing import Sample, interleaved, rates, settled
from benchmarks.serving.world import World
from inference.engine.compute_threads import ComputeThreads, with_parallel_batches
from inference.engine.executor import Executor
from inference.engine.in_flight import InFlightBatch
from inference.engine.pipeline import Pipeline
from inference.engine.pipelining import Pipelining
from inference.engine.rows import Answered, Row

TENANTS, BATCHES, REPEATS = 64, 8, 7
POOL_BYTES = 4 * 1024**3
BARE, ENGINE, SIDE_BY_SIDE = "bare upper layers", "engine", ", side by side"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print the table."""
    parser = shared.arguments(__doc__ or "")
    parser.add_argument("--http", action="store_true", help="also over HTTP, with all processors there are")
    options = parser.parse_args(argv)
    on = shared.machine(options)
    world = shared.world(options, on)
    world.store_hplms(TENANTS)
    repeats = options.repeats or (3 if options.quick else REPEATS)
    draw = np.random.default_rng(0)
    batches = [world.rows(draw.integers(0, TENANTS, options.rows), options.tokens) for _ in range(BATCHES)]
    with ExitStack() as stack:
        found = interleaved(_ways(stack, world, batches), repeats=repeats)
    rows = rates("what runs", found, batches=BATCHES, rows=options.rows)
    figures = {"engine_share": _share(found)}
    if options.http:
        over = over_http(options)
        rows, figures = [*rows, *over.rows], {**figures, **over.figures}
    print(harness.markdown_table(rows))
    print(figures)
    if options.json:
        settings = {**on.told, "encoder": world.encoder.name, "pet": options.pet, "repeats": repeats}
        harness.write_json(harness.Report("ceiling", settings, rows, figures), options.json)
    return 0


def _ways(stack: ExitStack, world: World, batches: Sequence[list[Row]]) -> dict[str, Callable[[int], float]]:
    """The engine as the product runs it, and the layers: one batch after the other and, where the product
    does so, side by side."""
    rows, tokens, count = len(batches[0]), len(batches[0][0]), len(batches)
    pipeline = Pipeline(with_parallel_batches(Pipelining(), world.device))
    stack.callback(pipeline.close)
    executor = world.executor(pipeline, pool_bytes=POOL_BYTES)
    ways: dict[str, Callable[[int], float]] = {BARE: partial(_bare, world, rows, tokens, count, 1)}
    if executor.parallel_batches > 1:
        ways[BARE + SIDE_BY_SIDE] = partial(_bare, world, rows, tokens, count, executor.parallel_batches)
    return ways | {ENGINE: partial(_engine, executor, batches)}


def _bare(world: World, rows: int, tokens: int, count: int, side_by_side: int, _: int) -> float:
    if side_by_side == 1:
        return bare_seconds(world, rows, tokens, count)
    return bare_parallel_seconds(world, rows, tokens, count, side_by_side)


def _engine(executor: Executor, batches: Sequence[list[Row]], _: int) -> float:
    return stream_seconds(executor, batches)


def _share(found: dict[str, Sample]) -> float:
    """The engine against whichever way of the layers alone is faster."""
    engine = np.array(found[ENGINE].seconds)
    alone = [np.array(sample.seconds) for name, sample in found.items() if name != ENGINE]
    return min(float(np.median(seconds / engine)) for seconds in alone)


def over_http(options: argparse.Namespace) -> harness.Report:
    """What `benchmarks.serving.http_share` finds; nothing, where it fails. In a process of its own: nothing
    here needs Django."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "http.json"
        command = [sys.executable, "-m", "benchmarks.serving.http_share", "--json", str(file)]
        for name in ("encoder", "pet", "rows", "tokens", "repeats"):
            value = getattr(options, name)
            command += [f"--{name}", str(value)] if value else []
        done = subprocess.run([*command, *(["--quick"] if options.quick else [])], check=False)
        if done.returncode:
            print(f"HTTP is left out: {command[2]} ended with {done.returncode}", file=sys.stderr)
            return harness.Report("http_share", {}, [], {})
        found = json.loads(file.read_text(encoding="utf-8"))
    return harness.Report("http_share", found["settings"], found["rows"], found["figures"])


@torch.inference_mode()
def bare_seconds(world: World, rows: int, tokens: int, batches: int) -> float:
    """The upper layers alone, without PETs, on states that are there already."""
    upper = world.root.upper
    states = torch.randn(rows, tokens, world.encoder.hidden, device=world.device, dtype=world.dtype)
    mask = torch.ones(rows, tokens, dtype=torch.bool, device=world.device)
    settled(world.device)
    started = time.perf_counter()
    for _ in range(batches):
        upper(states, mask, None)
    settled(world.device)
    return time.perf_counter() - started


def bare_parallel_seconds(world: World, rows: int, tokens: int, batches: int, count: int) -> float:
    """The same, so many batches side by side as the engine computes them."""
    lanes = ComputeThreads(count)
    each = [batches // count + (number < batches % count) for number in range(count)]
    started = time.perf_counter()
    done = [lanes.submit(partial(bare_seconds, world, rows, tokens, own)) for own in each]
    for one in done:
        one.result()
    seconds = time.perf_counter() - started
    lanes.close()
    return seconds


def stream_seconds(executor: Executor, batches: Sequence[list[Row]]) -> float:
    """Batch after batch through the engine, the next begun before this one is finished."""
    started = time.perf_counter()
    for outcomes in stream(executor, iter(batches)):
        assert all(isinstance(outcome, Answered) for outcome in outcomes)
    return time.perf_counter() - started


def stream(executor: Executor, batches: Iterator[list[Row]]) -> Iterator[list[object]]:
    """The outcomes of each batch, as the inference worker runs them: one is begun ahead of those that
    compute."""
    flights: deque[InFlightBatch] = deque()
    for rows in batches:
        flights.append(executor.begin(rows))
        if len(flights) > executor.parallel_batches:
            yield list(executor.finish(flights.popleft()))
    for flight in flights:
        yield list(executor.finish(flight))


if __name__ == "__main__":
    sys.exit(main())
