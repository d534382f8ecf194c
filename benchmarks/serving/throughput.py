"""Throughput against the number of tenants: the paper's figure 11, beside the libraries a user would pick.

Every batch mixes tenants, drawn uniformly or by Zipf's law from so many different models that are really
stored, and opened before: the product keeps them in memory on the host. "from files" has room for
hardly any, so every model is read again. "at the level full" computes the lower layers instead of looking
them up. Cells are measured batch by batch in turn, so that they share whatever slows the machine.

    python -m benchmarks.serving.throughput
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks import harness
from benchmarks.serving import options as shared
from benchmarks.serving.ceiling import stream
from benchmarks.serving.peers.client import Peer
from benchmarks.serving.peers.errors import PeerUnavailable
from benchmarks.serving.peers.schemes import Settings
from benchmarks.serving.schemes import Dedicated, HbertAdapter, Shared, dedicated_weights
from benchmarks.serving.timing import Sample, interleaved
from benchmarks.serving.token_sources import VOCAB
from benchmarks.serving.world import World
from inference.cascade.dispatcher import Level
from inference.engine.executor import Executor
from inference.engine.pipeline import Pipeline
from inference.engine.rows import Answered

TENANTS, QUICK_TENANTS = (1, 10, 16, 32, 100, 1000, 10_000), (1, 16, 32, 1000)
STREAM, REPEATS, QUICK_REPEATS, RESIDENT = 3, 7, 3, 16
MIB = 1024**2
POOL_BYTES = 16 * 1024 * MIB
EACH_ONCE = "each once"
MIXED, IN_FULL = 32, "hBERT, at the level full"
PEERS = {"adapters BatchSplit": "batchsplit", "PEFT mixed batch": "peft"}
Cell = tuple[str, int, str]
"""Scheme, tenants, and the law by which a batch's are drawn."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print the table."""
    parser = shared.arguments(__doc__ or "")
    parser.add_argument("--no-peers", action="store_true", help="only the paper's schemes")
    return shared.run(parser, measure, argv)


def measure(options: argparse.Namespace, world: World) -> harness.Report:
    """All cells. The libraries have adapters of the paper's kind and rows of one length: they are asked in
    its shape alone."""
    counts = QUICK_TENANTS if options.quick else TENANTS
    world.store_hplms(max(counts))
    repeats = options.repeats or (QUICK_REPEATS if options.quick else REPEATS)
    pipeline = Pipeline()
    with ExitStack() as stack:
        stack.callback(pipeline.close)
        cells = Cells(world, options.rows)
        executor = world.executor(pipeline, pool_bytes=POOL_BYTES)
        opened_s = world.open_all(executor, max(counts))
        cells.add_paper(counts, executor)
        cells.add_engine("hBERT, from files", world.executor(pipeline, pool_bytes=MIB), max(counts))
        cells.add_engine(IN_FULL, executor, MIXED, level=Level.FULL)
        if options.tokens is not None and not options.no_peers:
            cells.add_engine("hBERT", executor, options.rows, EACH_ONCE)
            cells.add_peers(stack, options.tokens)
        found = interleaved(cells.ways, repeats=repeats)
    figures = {**_figures(found, max(counts)), "open_all_s": opened_s}
    return harness.Report("throughput", {"repeats": repeats}, _rows(found, options.rows), figures)


class Cells:
    """What is measured: by cell, what runs one batch and says how long it took."""

    def __init__(self, world: World, rows: int) -> None:
        self.ways: dict[Cell, Callable[[int], float]] = {}
        self._world, self._rows = world, rows
        self._draw = np.random.default_rng(0)

    def add_paper(self, counts: Sequence[int], executor: Executor) -> None:
        """The schemes of the paper."""
        adapter = HbertAdapter(self._world, pool_bytes=POOL_BYTES)
        one = Shared(self._world)
        # Those of up to RESIDENT tenants stay; the others have room for no more.
        weights = dedicated_weights(self._world)
        staying, swapped = (Dedicated(self._world, weights, resident=RESIDENT) for _ in range(2))
        for count in counts:
            for law in ("uniform", "zipf") if count > 1 else ("uniform",):
                self.ways["hBERT", count, law] = self._engine(executor, count, law)
            self.ways["hBERT-adapter", count, "uniform"] = self._alone(adapter, count)
            dedicated = staying if count <= RESIDENT else swapped
            self.ways["dedicated", count, "uniform"] = self._alone(dedicated, count)
        self.ways["shared", 1, "uniform"] = self._alone(one, 1)

    def add_engine(
        self, name: str, executor: Executor, count: int, law: str = "uniform", level: Level = Level.TABLE
    ) -> None:
        """The product with this executor, all rows at the level."""
        self.ways[name, count, law] = self._engine(executor, count, law, level)

    def add_peers(self, stack: ExitStack, tokens: int) -> None:
        """The libraries, each in a process and an environment of its own, as far as they can be had."""
        for name, scheme in PEERS.items():
            try:
                peer = stack.enter_context(Peer(self._peer(scheme)))
            except PeerUnavailable as error:
                print(f"{name} is left out: {error}", file=sys.stderr)
                continue
            self.ways[name, self._rows, EACH_ONCE] = lambda repeat, peer=peer: peer.measure(  # type: ignore[misc]
                rows=self._rows, tokens=tokens, tenants=self._rows, seed=repeat
            )

    def _peer(self, scheme: str) -> Settings:
        """The same encoder with adapters in the same layers, as many tenants as a batch has rows."""
        encoder = self._world.encoder
        return Settings(
            scheme=scheme,
            layers=encoder.layers,
            hidden=encoder.hidden,
            heads=encoder.heads,
            inner=encoder.inner,
            vocab=VOCAB,
            tenants=self._rows,
            bare=self._world.lower,
            dtype=str(self._world.dtype).removeprefix("torch."),
            threads=torch.get_num_threads(),
            device=self._world.device.type,
        )

    def _engine(
        self, executor: Executor, count: int, law: str, level: Level = Level.TABLE
    ) -> Callable[[int], float]:
        def run(_: int) -> float:
            batches = [self._world.rows(self._tenants(count, law), level) for _ in range(STREAM)]
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
        """Of a batch, those of one tenant together: as even as its rows allow for up to RESIDENT tenants."""
        if law == "zipf":
            weights = 1 / np.arange(1, count + 1)
            return np.sort(self._draw.choice(count, self._rows, p=weights / weights.sum()).astype(np.int64))
        if law == EACH_ONCE or count <= RESIDENT:
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
    figures = {
        f"flat_{most // 1000}k": min(flat),
        "vs_dedicated_16": ratio(("hBERT", 16, "uniform"), ("dedicated", 16, "uniform")),
        "beyond_memory": ratio(("hBERT, from files", most, "uniform"), ("hBERT", most, "uniform")),
        "vs_hbert_adapter": ratio(mixed, ("hBERT-adapter", MIXED, "uniform")),
        "table_vs_full": ratio(mixed, (IN_FULL, MIXED, "uniform")),
    }
    for name, (scheme, label) in {
        "vs_adapters_32": ("adapters BatchSplit", EACH_ONCE),
        "vs_peft_32": ("PEFT mixed batch", EACH_ONCE),
    }.items():
        if (scheme, 32, label) in found:
            figures[name] = ratio(("hBERT", 32, label), (scheme, 32, label))
    return figures


if __name__ == "__main__":
    sys.exit(main())
