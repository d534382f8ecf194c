"""How much of the upper layers' throughput the engine keeps: retrieval, adapters, heads and pipeline on one
side, nothing but the layers on the other, with and without PETs, over the same tokens.

    python -m benchmarks.serving.ceiling
"""

import argparse
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial

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
from inference.hplm.pets.batch import RowOnDevice, SegmentPets
from inference.hplm.pets.packed import PackedPet
from inference.hplm.sequences import PackedSequences

TENANTS, BATCHES, REPEATS = 64, 8, 7
POOL_BYTES = 4 * 1024**3
BARE, PETS, ENGINE, SIDE_BY_SIDE = "bare upper layers", " with PETs", "engine", ", side by side"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print the table."""
    return shared.run(shared.arguments(__doc__ or ""), measure, argv)


def measure(options: argparse.Namespace, world: World) -> harness.Report:
    """The engine, and the layers alone."""
    world.store_hplms(TENANTS)
    repeats = options.repeats or (3 if options.quick else REPEATS)
    draw = np.random.default_rng(0)
    batches = [world.rows(np.sort(draw.integers(0, TENANTS, options.rows))) for _ in range(BATCHES)]
    with ExitStack() as stack:
        found = interleaved(_ways(stack, world, batches), repeats=repeats)
    rows = rates("what runs", found, batches=BATCHES, rows=options.rows)
    figures = {
        "engine_share": _share(found, pets=False),
        "engine_share_with_pets": _share(found, pets=True),
    }
    return harness.Report("ceiling", {"repeats": repeats}, rows, figures)


def _ways(stack: ExitStack, world: World, batches: Sequence[list[Row]]) -> dict[str, Callable[[int], float]]:
    """The engine as the product runs it, and the layers with and without PETs: one batch after the other and,
    where the product does so, side by side."""
    pipeline = Pipeline(with_parallel_batches(Pipelining(), world.device))
    stack.callback(pipeline.close)
    executor = world.executor(pipeline, pool_bytes=POOL_BYTES)
    bare, with_pets = BareLayers(world, batches), BareLayers(world, batches, pets=True)
    ways: dict[str, Callable[[int], float]] = {ENGINE: partial(_engine, executor, batches)}
    for name, layers in {"": bare, PETS: with_pets}.items():
        ways[BARE + name] = layers.seconds
        if executor.parallel_batches > 1:
            ways[BARE + name + SIDE_BY_SIDE] = partial(layers.parallel_seconds, executor.parallel_batches)
    return ways


def _engine(executor: Executor, batches: Sequence[list[Row]], _: int) -> float:
    return stream_seconds(executor, batches)


def _share(found: dict[str, Sample], *, pets: bool) -> float:
    """The engine against whichever way of the layers alone is faster, with or without PETs."""
    alone = [sample for name, sample in found.items() if BARE in name and (PETS in name) is pets]
    engine = np.array(found[ENGINE].seconds)
    return min(float(np.median(np.array(sample.seconds) / engine)) for sample in alone)


class BareLayers:
    """The upper layers alone over the tokens of these batches, on states that are there already. pets: with
    every row's PET, which is there already, too."""

    def __init__(self, world: World, batches: Sequence[list[Row]], *, pets: bool = False) -> None:
        self._world = world
        self._sequences = [PackedSequences.of([row.ids for row in batch]) for batch in batches]
        self._pets = [self._load(batch) if pets else None for batch in batches]
        longest = max(sequences.tokens for sequences in self._sequences)
        self._states = torch.randn(longest, world.encoder.hidden, device=world.device, dtype=world.dtype)

    def seconds(self, _: int) -> float:
        """One batch after the other."""
        return self._run(range(len(self._sequences)))

    def parallel_seconds(self, count: int, _: int) -> float:
        """So many side by side, as the engine computes them."""
        threads = ComputeThreads(count)
        started = time.perf_counter()
        done = [
            threads.submit(partial(self._run, range(number, len(self._sequences), count)))
            for number in range(count)
        ]
        for one in done:
            one.result()
        seconds = time.perf_counter() - started
        threads.close()
        return seconds

    @torch.inference_mode()
    def _run(self, batches: Sequence[int]) -> float:
        settled(self._world.device)
        started = time.perf_counter()
        for at in batches:
            sequences = self._sequences[at]
            self._world.root.upper(self._states[: sequences.tokens], sequences, self._pets[at])
        settled(self._world.device)
        return time.perf_counter() - started

    def _load(self, batch: list[Row]) -> SegmentPets:
        """Rows of one model are neighbours in the engine's batches; here each row has its own segment."""
        loaded = {row.model: self._world.load(row.model).pet for row in batch}
        device = self._world.device
        on_device = None if device.type == "cpu" else _copied(loaded.values(), device)
        return SegmentPets.of([loaded[row.model] for row in batch], [len(row) for row in batch], on_device)


def _copied(pets: Iterable[PackedPet], device: torch.device) -> RowOnDevice:
    """The rows of these PETs on the device."""
    copies = {id(pet): [row.to(device) for row in pet.rows] for pet in pets}
    return lambda pet, layer: copies[id(pet)][layer]


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
