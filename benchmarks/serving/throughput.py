"""Throughput against the number of tenants: the paper's figure 11.

Every batch mixes tenants, drawn uniformly or by Zipf's law from so many different models that are really
stored, and opened before: the product keeps them in memory on the host. "from files" has room for
hardly any, so every model is read again. "at the level full" computes the lower layers instead of looking
them up. "16 domains" spreads the models of a batch over so many tables before the root's, "1 domain" puts
all on one. Dedicated models stay loaded as far as the machine's memory holds them; the weights of the others
are copied over those of the model that was used least recently. Cells are measured batch by batch in turn,
so that they share whatever slows the machine.

    python -m benchmarks.serving.throughput
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

import numpy as np
from numpy.typing import NDArray

from benchmarks import harness
from benchmarks.serving import options as shared
from benchmarks.serving.ceiling import stream
from benchmarks.serving.dedicated import Dedicated, models_in_memory
from benchmarks.serving.timing import Sample, interleaved
from benchmarks.serving.world import World
from inference.cascade.dispatcher import Level
from inference.engine.executor import Executor
from inference.engine.pipeline import Pipeline
from inference.engine.rows import Answered

TENANTS, QUICK_TENANTS = (1, 10, 16, 32, 100, 1000, 10_000), (1, 16, 32, 1000)
STREAM, REPEATS, QUICK_REPEATS, EVEN = 3, 7, 3, 16
MIB = 1024**2
POOL_BYTES = 16 * 1024 * MIB
MIXED, IN_FULL = 32, "hBERT, at the level full"
OF_DOMAINS = {1: "hBERT, 1 domain", EVEN: f"hBERT, {EVEN} domains"}
COMPARED = (16, 1000)
"""Numbers of tenants of whom dedicated models are compared."""
QUICK_RESIDENT = 64
Cell = tuple[str, int, str]
"""Scheme, tenants, and the law by which a batch's are drawn."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print the table."""
    return shared.run(shared.arguments(__doc__ or ""), measure, argv)


def measure(options: argparse.Namespace, world: World) -> harness.Report:
    """All cells."""
    counts = QUICK_TENANTS if options.quick else TENANTS
    world.store_hplms(max(counts))
    repeats = options.repeats or (QUICK_REPEATS if options.quick else REPEATS)
    pipeline = Pipeline()
    with ExitStack() as stack:
        stack.callback(pipeline.close)
        resident = min(models_in_memory(world), QUICK_RESIDENT if options.quick else max(counts))
        cells = Cells(world, options.rows, Dedicated(world, resident=resident))
        executor = world.executor(pipeline, pool_bytes=POOL_BYTES)
        opened_s = world.open_all(executor, max(counts))
        cells.add_tenants(counts, executor)
        cells.add_engine("hBERT, from files", world.executor(pipeline, pool_bytes=MIB), max(counts))
        cells.add_engine(IN_FULL, executor, MIXED, level=Level.FULL)
        for domains, name in OF_DOMAINS.items():
            cells.add_engine(name, executor, MIXED, domains=domains)
        found = interleaved(cells.ways, repeats=repeats)
    figures = {**_figures(found, max(counts)), "open_all_s": opened_s}
    settings = {"repeats": repeats, "dedicated models in memory": resident}
    return harness.Report("throughput", settings, _rows(found, options.rows), figures)


class Cells:
    """What is measured: by cell, what runs one batch and says how long it took."""

    def __init__(self, world: World, rows: int, dedicated: Dedicated) -> None:
        self.ways: dict[Cell, Callable[[int], float]] = {}
        self._world, self._rows = world, rows
        self._draw = np.random.default_rng(0)
        self._dedicated = dedicated

    def add_tenants(self, counts: Sequence[int], executor: Executor) -> None:
        """The product and dedicated models, by the number of tenants."""
        for count in counts:
            for law in ("uniform", "zipf") if count > 1 else ("uniform",):
                self.ways["hBERT", count, law] = self._engine(executor, count, law)
            self.ways["dedicated", count, "uniform"] = self._alone(self._dedicated, count)

    def add_engine(
        self,
        name: str,
        executor: Executor,
        count: int,
        law: str = "uniform",
        level: Level = Level.TABLE,
        domains: int = 0,
    ) -> None:
        """The product with this executor, all rows at the level; the models stand on so many domains."""
        self.ways[name, count, law] = self._engine(executor, count, law, level, domains)

    def _engine(
        self, executor: Executor, count: int, law: str, level: Level = Level.TABLE, domains: int = 0
    ) -> Callable[[int], float]:
        def run(_: int) -> float:
            batches = [
                self._world.rows(self._tenants(count, law), level, domains=domains) for _ in range(STREAM)
            ]
            started = time.perf_counter()
            for outcomes in stream(executor, iter(batches)):
                assert all(isinstance(outcome, Answered) for outcome in outcomes)
            return (time.perf_counter() - started) / STREAM

        return run

    def _alone(self, scheme: Callable[..., None], count: int) -> Callable[[int], float]:
        def run(_: int) -> float:
            rows = self._world.rows(self._tenants(count, "uniform"))
            started = time.perf_counter()
            scheme(rows)
            return time.perf_counter() - started

        return run

    def _tenants(self, count: int, law: str) -> NDArray[np.int64]:
        """Of a batch, those of one tenant together: as even as its rows allow for up to EVEN tenants."""
        if law == "zipf":
            weights = 1 / np.arange(1, count + 1)
            return np.sort(self._draw.choice(count, self._rows, p=weights / weights.sum()).astype(np.int64))
        if count <= EVEN:
            return np.sort(np.arange(self._rows, dtype=np.int64) % count)
        return np.sort(self._draw.integers(0, count, self._rows))


def _rows(found: dict[Cell, Sample], rows: int) -> list[harness.Row]:
    return [
        {
            "scheme": scheme,
            "tenants": count,
            "drawn": law,
            "rows a second": rows / sample.median,
            "spread": sample.spread,
        }
        for (scheme, count, law), sample in found.items()
    ]


def _figures(found: dict[Cell, Sample], most: int) -> dict[str, float]:
    """Ratios of throughputs, each repeat's own, and of these the median."""

    def ratio(better: Cell, worse: Cell) -> float:
        pairs = zip(found[worse].seconds, found[better].seconds, strict=True)
        return float(np.median([slow / fast for slow, fast in pairs]))

    one, mixed = ("hBERT", 1, "uniform"), ("hBERT", MIXED, "uniform")
    flat = [ratio(("hBERT", most, law), one) for law in ("uniform", "zipf")]
    return {
        f"flat_{most // 1000}k": min(flat),
        **{
            f"vs_dedicated_{count}": ratio(("hBERT", count, "uniform"), ("dedicated", count, "uniform"))
            for count in COMPARED
        },
        "beyond_memory": ratio(("hBERT, from files", most, "uniform"), ("hBERT", most, "uniform")),
        "table_vs_full": ratio(mixed, (IN_FULL, MIXED, "uniform")),
        f"domains_flat_{EVEN}": ratio(
            (OF_DOMAINS[EVEN], MIXED, "uniform"), (OF_DOMAINS[1], MIXED, "uniform")
        ),
    }


if __name__ == "__main__":
    sys.exit(main())
